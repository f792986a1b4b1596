"""Facts as rules of a grammar."""
