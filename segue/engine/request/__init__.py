"""One request as sequences and events."""
