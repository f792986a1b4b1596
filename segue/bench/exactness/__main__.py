"""Random schemas against the jsonschema package, regular expressions against re, GBNF against a recogniser.

python -m segue.bench.exactness [schemas] [regexes] [grammars] [--trials 2000] [--seed 0]
"""

import argparse
import sys
from importlib.util import find_spec
from random import Random

from segue.bench.exactness.trial import Findings, try_grammar, try_regex, try_schema
from segue.engine.constraints.compiler import Compiler
from segue.runners.fake import VOCAB_SIZE, FakeVocab

KINDS = {"schemas": try_schema, "regexes": try_regex, "grammars": try_grammar}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "kinds",
        nargs="*",
        choices=[[], *KINDS],
        metavar="KIND",
        help=f"{', '.join(KINDS)}; all, if none is named",
    )
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds = options.kinds or list(KINDS)
    if "schemas" in kinds and find_spec("jsonschema") is None:
        parser.error("schemas are held to the jsonschema package: pip install jsonschema")
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    is_wrong = False
    for name in kinds:
        found = Findings()
        for trial in range(options.trials):
            try:
                KINDS[name](Random(options.seed + trial), compiler, found)
            except AssertionError as error:
                found.wrong.append(f"trial {trial}: {error}")
        print(
            f"{name}: {found.compiled} compiled, {found.refused} refused, {found.judged} texts judged, "
            f"{found.drawn} texts drawn, {len(found.wrong)} wrong"
        )
        for wrong in found.wrong[:20]:
            print("  " + wrong)
        is_wrong |= bool(found.wrong)
    sys.exit(is_wrong)


if __name__ == "__main__":
    main()
