"""Compute: one step of many sequences → logits. Each runner is the only importer of its library."""
