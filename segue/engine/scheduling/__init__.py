"""Which sequences run in the next step, and what is done with its logits."""
