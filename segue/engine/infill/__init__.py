"""Prefix + suffix → a prompt in the model's own layout, or ranked middles."""
