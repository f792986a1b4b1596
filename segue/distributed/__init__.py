"""External engines behind the same seam as the built-in one: vLLM."""
