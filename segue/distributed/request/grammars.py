"""A constraint as a Lark grammar, the one form that vLLM's guidance backend accepts for all of them."""

import json

from segue.errors import InvalidField

_MARK = "%llguidance"


def lark(text: str, param: str) -> str:
    """The Lark grammar of `text`, a compiled constraint: a list of grammars. Raises InvalidField."""
    grammars = json.loads(text)["grammars"]
    if len(grammars) > 1:
        raise InvalidField(f"{param}: the vLLM engine takes one grammar, not a list of them", param)
    written: str = grammars[0]["lark_grammar"]  # schemas are written in Lark too
    # With the mark in front, no part of the grammar is mistaken for GBNF.
    return written if _MARK in written else f"{_MARK} {{}}\n{written}"
