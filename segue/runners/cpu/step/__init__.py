"""A step's kernels: what every thread does, phase by phase. Compiled in a process of its own (compile.py)."""
