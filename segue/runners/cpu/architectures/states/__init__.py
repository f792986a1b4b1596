"""Layers that carry a state from token to token: their dimensions and tensors."""
