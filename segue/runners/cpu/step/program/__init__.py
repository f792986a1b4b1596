"""A model's step as instructions: one row of numbers per phase, written once when the model is loaded."""
