"""A mixture of experts: how rows choose theirs, and how rows with the same expert are computed together."""
