"""A tiny GGUF of every architecture: what its file has, by the families of segue/runners/cpu/architectures."""
