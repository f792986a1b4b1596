"""Documents made from the tables."""
