"""Parts of the CPU runner, measured alone."""
