"""The page at `/`: static files, and what they ask of the server beside completions."""
