"""Models by name: where their files come from, and what a GGUF's header says."""
