"""Compiles as `segue.runners.cpu.compile` does, in the same process, but only what takes a moment."""

import sys

from segue.runners.cpu import compile

ENTRIES = {"await_left": 1, "tell_word": 2}
MODULE = "tests.runners.cpu.few_kernels"

if __name__ == "__main__":
    compile.ENTRIES = ENTRIES
    compile._main(*sys.argv[1:])
