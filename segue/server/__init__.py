"""HTTP: transport, admission, endpoints, framing."""
