"""What runs next, and what follows from it."""
