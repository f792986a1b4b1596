"""vLLM as tests start it, alone or on the nodes of Ray, and what they ask of it."""
