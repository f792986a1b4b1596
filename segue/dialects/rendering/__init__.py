"""Writing an answer: events as JSON objects."""
