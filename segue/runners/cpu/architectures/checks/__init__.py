"""What settings and tensors of a file may be, each by itself, and how a refusal names them."""
