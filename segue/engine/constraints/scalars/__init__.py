"""Strings and numbers of JSON as regular expressions, and expressions that callers write."""
