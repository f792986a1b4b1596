"""Batching and everything below the wire: from a request to tokens and events."""
