"""Strings and numbers of JSON as regular expressions."""
