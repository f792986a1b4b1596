"""Random regular expressions, and texts to match."""

from itertools import product
from random import Random

_ATOMS = ("a", "b", "[ab]", "[^a]", ".", "(?:ab)", "\\d", "1", "é")
_TIMES = ("", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}")
TEXTS = tuple("".join(t) for size in range(4) for t in product("ab1é", repeat=size))


def regex(random: Random, depth: int = 2) -> str:
    parts = []
    for _ in range(random.randrange(1, 4)):
        nested = depth and random.random() < 0.3
        atom = f"(?:{regex(random, depth - 1)})" if nested else random.choice(_ATOMS)
        parts.append(atom + random.choice(_TIMES))
    if random.random() < 0.25:
        parts.insert(random.randrange(len(parts) + 1), "|")
    return "".join(parts)
