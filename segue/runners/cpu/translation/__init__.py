"""Kernels from Python to LLVM IR: only as much of Python as they are written in, with Python's meaning.

Numbers are integers of 64 bits, floats of 32 bits and truth values. What is known when a kernel is translated, such as
the numbers of a module or of a function that makes kernels, is computed by Python itself. What kernels do not use is
refused; errors name the statement. Unlike Python's, integers wrap around; a divisor that turns out to be 0 and a
variable that has no number yet are not noticed: no kernel may have them.
"""
