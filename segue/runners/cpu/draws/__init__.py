"""Tokens drawn by compiled code, all rows of a step at once: the sampler's usual cuts, with the sampler's bits."""
