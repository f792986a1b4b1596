"""A constraint as a Lark grammar, the one form that vLLM's guidance backend accepts for all of them."""

import json

from segue.errors import InvalidField

_MARK = "%llguidance"


def lark(text: str, param: str) -> str:
    """The Lark grammar of `text`, a list of grammars as llguidance takes it. Raises InvalidField."""
    grammars = json.loads(text)["grammars"]
    if len(grammars) > 1:
        raise InvalidField(f"{param}: the vLLM engine takes one grammar, not a list of them", param)
    grammar = grammars[0]
    if "lark_grammar" in grammar:
        written: str = grammar["lark_grammar"]
    else:
        written = f"start: %json {json.dumps(grammar['json_schema'])}"
    # With the mark in front, no part of the grammar is mistaken for GBNF.
    return written if _MARK in written else f"{_MARK} {{}}\n{written}"
