"""Logits → token: filters, penalties, biases and bans, the draw, and log-probabilities."""
