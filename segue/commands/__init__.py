"""Commands besides `segue serve`, listed in cli.py, and what they share."""
