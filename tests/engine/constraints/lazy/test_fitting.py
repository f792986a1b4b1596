"""What a grammar may begin with, held to reading each text."""

import random

import numpy as np
import pytest

from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.lazy.fitting import Fitting
from segue.types import Constraint
from tests.engine.constraints import random_grammars


@pytest.mark.parametrize(
    "text", ['root ::= "ab" "ba"', 'root ::= "abba" [a-c]*', 'root ::= "x" [^b]+', ""]
)
def test_tokens_behind_a_text(made: Compiler, text: str) -> None:
    """Where the next token is forced too: then a mask has no other."""
    rng = random.Random(0)
    for _ in range(1 if text else 30):
        constraint = Constraint(kind="gbnf", value=text or str(random_grammars.grammar(rng, False)))
        grammar = made.compile(constraint)
        known = grammar.vocabulary
        fitting = Fitting(grammar._whole, known, b"", grammar.lexer)
        every = known.pieces.beginning_with(b"")
        texts = every[np.isin(every, [*known.texts])]
        befores = [
            b"",
            *(bytes(rng.choices(b"abcx", k=rng.randint(1, 3))) for _ in range(6)),
            b"ab",
        ]
        for before in befores:
            if fitting.num_read(before) < len(before):
                continue
            single = [fitting.fits(before + known.piece(token)) for token in texts]
            assert fitting.among(before, texts).tolist() == single, (constraint.value, before)
