"""Models as data: the table of architectures, a file's measures, its tensors and positions, and what is refused."""
