"""Grammar → mask: what may come next under a constraint."""
