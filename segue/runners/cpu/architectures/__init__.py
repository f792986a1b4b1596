"""Models as data: the table of architectures, a file's hyperparameters, tensors and positions, and what is refused."""
