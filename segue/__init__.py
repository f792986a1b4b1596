"""Segue: a text-completions server that speaks six dialects on one real engine."""

__version__ = "0.1.0"
