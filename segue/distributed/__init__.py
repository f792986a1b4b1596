"""Engines that are somebody else's: vLLM's, behind the same seam as our own."""
