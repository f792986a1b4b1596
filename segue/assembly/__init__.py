"""Puts the parts together: the runner of each model, the fleet of models, and the policy of the server."""
