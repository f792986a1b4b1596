"""Flags, commands and variables of other systems: one that is used here by habit is answered with what it is here."""
