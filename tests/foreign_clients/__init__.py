"""Clients that are not among the development tools, each in an environment of its own: `make clients`."""
