"""Who is next: sequences that wait for a slot, and the one that gives its own up."""
