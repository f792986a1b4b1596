"""Who may come in: hosts, CORS, keys, bodies, rate limits, and the record of each request."""
