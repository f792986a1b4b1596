"""Metrics for Prometheus: what is counted of requests, and the page that shows it beside the engines' figures."""
