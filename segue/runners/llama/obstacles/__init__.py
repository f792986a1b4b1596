"""Files that llama.cpp must not be given: it would end the process over them, or never end computing."""
