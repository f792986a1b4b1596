"""How texts are split into words, within which a vocabulary merges."""
