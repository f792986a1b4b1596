"""Loads damaged models one after another and says how each ended: python -m tests.support.mutants FILE...

A process of its own, as llama.cpp may end it.
"""

import sys

from segue.errors import SegueError
from segue.runners.llama.runner import LlamaLoader


def main() -> None:
    for path in sys.argv[1:]:
        try:
            loaded = LlamaLoader(path, "mutant", context_length=32, num_slots=2, threads=1)()
        except SegueError as error:
            print(f"{path}\trefused\t{error.message!a}", flush=True)
        else:
            loaded.runner.close()
            loaded.vocab.close()
            print(f"{path}\tloaded\t", flush=True)


if __name__ == "__main__":
    main()
