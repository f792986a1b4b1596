"""HTTP: connections, admission, endpoints, framing."""
