"""Random schemas against the jsonschema package, random regular expressions against re.

python -m segue.bench.exactness [--trials 2000] [--seed 0]
"""

import argparse
import sys
from random import Random

from segue.bench.exactness.trial import Findings, try_regex, try_schema
from segue.engine.constraints.compiler import Compiler
from segue.runners.fake import VOCAB_SIZE, FakeVocab


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    is_wrong = False
    for name, try_one in (("schemas", try_schema), ("regular expressions", try_regex)):
        found = Findings()
        for trial in range(options.trials):
            try:
                try_one(Random(options.seed + trial), compiler, found)
            except AssertionError as error:
                found.wrong.append(f"trial {trial}: {error}")
        print(
            f"{name}: {found.compiled} compiled, {found.refused} refused, {found.judged} values judged, "
            f"{found.drawn} texts drawn, {len(found.wrong)} wrong"
        )
        for wrong in found.wrong[:20]:
            print("  " + wrong)
        is_wrong |= bool(found.wrong)
    sys.exit(is_wrong)


if __name__ == "__main__":
    main()
