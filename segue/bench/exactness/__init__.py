"""Random constraints against independent validators: what they allow, and what can be drawn."""
