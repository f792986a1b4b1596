"""The CPU runner: kernels written in Python, compiled for the machine at hand, the same bits on every machine."""
