"""llama.cpp by ctypes: runner, C API, vocabulary."""
