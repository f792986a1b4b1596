"""What the command line does besides serving. Each file is one command; cli.py lists them."""
