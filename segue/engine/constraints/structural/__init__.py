"""Structural tags: free text with parts in it that are held to a form."""
