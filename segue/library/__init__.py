"""The engine as a library: `from segue import LLM`."""
