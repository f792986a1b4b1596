"""Phases that few models have: compiled for those alone, so that a first start of others takes no longer."""
