"""x86: VPDPBUSD, which multiplies unsigned by signed numbers, and VPMADDUBSW, which saturates."""

from segue.runners.cpu.emit import Builder, Value, call
from segue.runners.cpu.products.dots.vectors import ACTIVATION, Kind, Part, four


def vnni(b: Builder, part: Part) -> list[list[Value]]:
    kind, codes, rows = part.kind, part.codes, part.rows
    name = f"llvm.x86.avx512.vpdpbusd.{kind.flavour.lanes * 32}"
    # An instruction waits for the one before: a single row has two chains.
    chains = 2 if len(rows) == 1 else 1
    zero = kind.all(kind.ints, 0)
    acc = [part.starts(b, 128 if codes.is_signed else 0)]
    acc += [[[zero] * kind.flavour.vectors for _ in rows] for _ in range(chains - 1)]
    for step in part.steps:
        vectors = codes.step(step)
        if codes.is_signed:
            vectors = [b.xor(vector, kind.all(kind.bytes, -128)) for vector in vectors]
        own = acc[step % chains]
        for m, row in enumerate(rows):
            each = b.bitcast(four(b, kind, row, step), kind.ints)
            for v, vector in enumerate(vectors):
                own[m][v] = call(b, name, kind.ints, own[m][v], b.bitcast(vector, kind.ints), each)
    if chains == 1:
        return acc[0]
    return [[b.add(x, y) for x, y in zip(*both, strict=True)] for both in zip(*acc, strict=True)]


def maddubs(b: Builder, part: Part) -> list[list[Value]]:
    """As many steps are summed in 16 bits as surely fit."""
    kind, codes, rows = part.kind, part.codes, part.rows
    wide = kind.flavour.lanes == 16
    pairs_name = "llvm.x86.avx512.pmaddubs.w.512" if wide else "llvm.x86.avx2.pmadd.ub.sw"
    whole_name = "llvm.x86.avx512.pmaddw.d.512" if wide else "llvm.x86.avx2.pmadd.wd"
    fits = 1 if codes.is_signed else 32767 // (2 * codes.top * ACTIVATION)
    acc = part.starts(b)
    shorts: list[list[Value | None]] = [[None] * kind.flavour.vectors for _ in rows]
    held = 0
    for step in part.steps:
        vectors = codes.step(step)
        sizes = [_magnitude(b, kind, vector) for vector in vectors] if codes.is_signed else vectors
        for m, row in enumerate(rows):
            each = four(b, kind, row, step)
            for v, size in enumerate(sizes):
                signed = _with_sign(b, kind, each, vectors[v]) if codes.is_signed else each
                pairs = call(b, pairs_name, kind.shorts, size, signed)
                before = shorts[m][v]
                shorts[m][v] = pairs if before is None else b.add(before, pairs)
        held += 1
        if held == fits or step == part.steps[-1]:
            ones = kind.all(kind.shorts, 1)
            for m in range(len(rows)):
                for v in range(kind.flavour.vectors):
                    whole = call(b, whole_name, kind.ints, shorts[m][v], ones)
                    acc[m][v] = b.add(acc[m][v], whole)
                    shorts[m][v] = None
            held = 0
    return acc


def _magnitude(b: Builder, kind: Kind, vector: Value) -> Value:
    """|w| as an unsigned number: 128 for -128."""
    return b.select(b.icmp_signed("<", vector, kind.all(kind.bytes, 0)), b.neg(vector), vector)


def _with_sign(b: Builder, kind: Kind, each: Value, vector: Value) -> Value:
    """The activations, negated where the weight is negative."""
    if kind.flavour.lanes == 8:
        return call(b, "llvm.x86.avx2.psign.b", kind.bytes, each, vector)
    negative = b.icmp_signed("<", vector, kind.all(kind.bytes, 0))
    return b.select(negative, b.neg(each), each)
