"""Functions of one tile: of codes, of many rows of them, of floats, and of one row of weights."""
