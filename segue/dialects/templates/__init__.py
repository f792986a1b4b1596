"""Prompt templates that come with models, rendered in a sandbox."""
