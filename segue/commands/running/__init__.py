"""What commands do with a model, or with a server's: imported while the model's worker starts."""
