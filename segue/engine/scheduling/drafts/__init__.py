"""Speculative decoding: drafts from texts and of a draft model, and whether they pay."""
