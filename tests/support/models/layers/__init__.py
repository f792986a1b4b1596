"""Tensors of layers that tiny_writer.py writes: attention to latents, layers with a state, embeddings of layers."""
