"""What only some architectures have: linear biases, latents, limits, several passes or residuals, xIELU."""
