"""Attention over the KV cache: its inner loops, its softmax, and how a context is put together of segments."""
