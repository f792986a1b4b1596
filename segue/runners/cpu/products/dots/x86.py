"""x86: VPDPBUSD, which multiplies unsigned by signed numbers, and VPMADDUBSW, which saturates."""

from collections.abc import Callable
from functools import partial

from segue.runners.cpu.emit import Builder, Value, call
from segue.runners.cpu.products.dots.vectors import ACTIVATION, Kind, Part, four
from segue.runners.cpu.products.layout import GROUP, STEP

# By number of lanes: the instructions that multiply and sum pairs of bytes, and pairs of 16-bit numbers.
_NAMES = {
    16: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
    8: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    4: ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
}
_SIGNED = {8: "llvm.x86.avx2.psign.b", 4: "llvm.x86.ssse3.psign.b.128"}
_ALL = GROUP // STEP  # steps of a group


def vnni(b: Builder, part: Part) -> list[list[Value]]:
    kind, codes, rows = part.kind, part.codes, part.rows
    name = f"llvm.x86.avx512.vpdpbusd.{kind.flavour.lanes * 32}"
    # Each instruction waits for the one before it in its chain: a single row uses two chains to hide that latency.
    chains = 2 if len(rows) == 1 else 1
    zero = kind.all(kind.ints, 0)
    acc = [[[zero] * codes.vectors for _ in rows] for _ in range(chains - 1)]
    acc.append(part.starts(b, 128 if codes.is_signed else 0))
    # Half of a code and all of the next one are found by one shift: those of one chain count twice.
    half = codes.half if chains == 2 else None
    for step in part.steps:
        vectors = half(step) if half and step % 2 == 0 else codes.step(step)
        if codes.is_signed:
            vectors = [b.xor(vector, kind.all(kind.bytes, -128)) for vector in vectors]
        own = acc[step % chains]
        for m, row in enumerate(rows):
            each = b.bitcast(four(b, kind, row, step), kind.ints)
            for v, vector in enumerate(vectors):
                own[m][v] = call(b, name, kind.ints, own[m][v], b.bitcast(vector, kind.ints), each)
    if chains == 1:
        return acc[0]
    if half:
        acc[0] = [[b.add(x, x) for x in own] for own in acc[0]]
    return [[b.add(x, y) for x, y in zip(*both, strict=True)] for both in zip(*acc, strict=True)]


def maddubs(b: Builder, part: Part) -> list[list[Value]]:
    """Without VNNI: steps are summed in 16 bits as long as they cannot overflow."""
    codes = part.codes
    if not codes.is_signed:
        fits = 32767 // (2 * codes.top * ACTIVATION)
        return _summed(b, part, part.starts(b), codes.step, (1,), fits)
    if part.kind.flavour.lanes in _SIGNED:
        return _signed(b, part)
    # Code + 128 as two digits in base 16: with digits this small, 16 bits hold the sum of all steps.
    return _summed(b, part, part.starts(b, 128), partial(_digits, b, part), (16, 1), _ALL)


def _summed(
    b: Builder,
    part: Part,
    acc: list[list[Value]],
    codes: Callable[[int], list[Value]],
    factors: tuple[int, ...],
    fits: int,
) -> list[list[Value]]:
    """acc plus the dot products with unsigned codes, of which there is one set for each factor.

    `fits`: how many steps 16 bits hold.
    """
    kind = part.kind
    pairs_name, whole_name = _NAMES[kind.flavour.lanes]
    shorts: list[list[Value]] = [[] for _ in part.rows]
    held = 0
    for step in part.steps:
        vectors = codes(step)
        for m, row in enumerate(part.rows):
            each = four(b, kind, row, step)
            pairs = [call(b, pairs_name, kind.shorts, vector, each) for vector in vectors]
            if held:
                pairs = [b.add(x, y) for x, y in zip(shorts[m], pairs, strict=True)]
            shorts[m] = pairs
        held += 1
        if held == fits or step == part.steps[-1]:
            for m, own in enumerate(shorts):
                for i, short in enumerate(own):
                    digit, v = divmod(i, part.codes.vectors)
                    times = kind.all(kind.shorts, factors[digit])
                    acc[m][v] = b.add(acc[m][v], call(b, whole_name, kind.ints, short, times))
            held = 0
    return acc


def _digits(b: Builder, part: Part, step: int) -> list[Value]:
    """The digits of code + 128 in base 16: the high digits of all vectors, then the low ones."""
    high, bits, low = (part.kind.all(part.kind.bytes, value) for value in (-128, 4, 15))
    vectors = part.codes.step(step)
    sixteens = [b.lshr(b.xor(vector, high), bits) for vector in vectors]
    return [*sixteens, *(b.and_(vector, low) for vector in vectors)]


def _signed(b: Builder, part: Part) -> list[list[Value]]:
    """|code| times the activation with the code's sign: 16 bits hold the sum of two such products."""
    kind = part.kind
    pairs_name, whole_name = _NAMES[kind.flavour.lanes]
    acc, ones = part.starts(b), kind.all(kind.shorts, 1)
    for step in part.steps:
        vectors = part.codes.step(step)
        sizes = [_magnitude(b, kind, vector) for vector in vectors]
        for m, row in enumerate(part.rows):
            each = four(b, kind, row, step)
            for v, size in enumerate(sizes):
                signed = call(b, _SIGNED[kind.flavour.lanes], kind.bytes, each, vectors[v])
                pairs = call(b, pairs_name, kind.shorts, size, signed)
                acc[m][v] = b.add(acc[m][v], call(b, whole_name, kind.ints, pairs, ones))
    return acc


def _magnitude(b: Builder, kind: Kind, vector: Value) -> Value:
    """|w| as an unsigned number: 128 for -128."""
    return b.select(b.icmp_signed("<", vector, kind.all(kind.bytes, 0)), b.neg(vector), vector)
