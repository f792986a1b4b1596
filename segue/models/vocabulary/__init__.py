"""The vocabulary of a GGUF file in Python with llama.cpp's tokens, for systems without its functions."""
