"""One connection of a client: HTTP with bounds, what is written to it, and the server that listens for it."""
