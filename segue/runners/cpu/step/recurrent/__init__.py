"""Layers that carry a state from token to token: a span's rows in order, heads and channels beside each other."""
