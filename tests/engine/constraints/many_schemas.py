"""Compiles and uses 600 schemas; fails if memory grew by more than a fifth after the first 200."""

import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.guide import Guide
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text("latin-1").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS")


def main() -> None:
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    before = 0
    for i in range(600):
        if i == 200:
            gc.collect()
            before = resident_kib()
        schema = f'{{"type":"object","properties":{{"key{i}":{{"type":"string","maxLength":{i % 100 + 1}}}}}}}'
        guide = Guide(compiler.compile(Constraint(kind="json_schema", value=schema)))
        for token in b'{"key':
            guide.accept(token)
        guide.wait()
    gc.collect()
    after = resident_kib()
    print(f"{before} KiB, then {after} KiB")
    sys.exit(after > before * 1.2)


if __name__ == "__main__":
    main()
