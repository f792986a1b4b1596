"""What the measurements share: a served process, a raw HTTP client, an engine without processes."""
