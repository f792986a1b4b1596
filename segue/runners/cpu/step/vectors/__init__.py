"""Numbers 16 at a time: functions of a vector, kernels over rows of floats, norms, rounding, rotations."""
