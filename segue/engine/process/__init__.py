"""The worker process, its supervisor, and the fleet of models."""
