"""The threads that compile constraints and find masks: whose turn it is, and what becomes of one that is stuck."""
