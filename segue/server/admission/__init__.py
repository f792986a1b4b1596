"""Which requests are admitted: hosts, CORS, keys, bodies, rate limits, and the record of each request."""
