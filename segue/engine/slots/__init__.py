"""What a client's slot holds, kept in files: their names, their format, and who reads and writes them when."""
