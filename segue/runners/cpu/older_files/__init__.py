"""Tensors of older files, as later ones have them."""
