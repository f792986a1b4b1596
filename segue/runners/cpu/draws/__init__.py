"""Sampling in compiled code, all rows of a step at once: the usual filters, with exactly the sampler's results."""
