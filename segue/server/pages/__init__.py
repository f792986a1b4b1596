"""Pages made from the dialects' tables."""
