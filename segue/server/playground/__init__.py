"""The page at `/`: static files, and the endpoints they use besides completions."""
