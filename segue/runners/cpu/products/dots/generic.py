"""Any machine: plain integers of 32 bits."""

from segue.runners.cpu.emit import Builder, Value, ahead, i8, i32, load, splat
from segue.runners.cpu.products.dots.vectors import Part
from segue.runners.cpu.products.layout import STEP


def generic(b: Builder, part: Part) -> list[list[Value]]:
    kind, codes, rows = part.kind, part.codes, part.rows
    acc = part.starts(b)
    for step in part.steps:
        words = [b.bitcast(vector, kind.ints) for vector in codes.step(step)]
        for byte in range(STEP):
            left, right = kind.all(kind.ints, 24 - 8 * byte), kind.all(kind.ints, 24)
            columns = [b.ashr(b.shl(word, left), right) for word in words]
            for m, row in enumerate(rows):
                one = b.sext(load(b, ahead(b, row, STEP * step + byte), i8, 1), i32)
                each = splat(b, one, kind.ints)
                for v, column in enumerate(columns):
                    acc[m][v] = b.add(acc[m][v], b.mul(column, each))
    return acc
