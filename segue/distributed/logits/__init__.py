"""What is done to vLLM's logits inside its processes: filters in another order, and draws of Segue's own sampler."""
