"""Grammar → mask: the tokens that a constraint allows next."""
