"""Several server processes over one engine: the parent, what it hands out, and what they share."""
