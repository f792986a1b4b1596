"""One request on vLLM: its parameters there, the outputs that come back, and the events they become."""
