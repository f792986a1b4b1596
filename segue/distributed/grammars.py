"""A compiled constraint in the one form that vLLM's guidance backend takes whole: a Lark grammar."""

import json

from segue.errors import InvalidField

_MARK = "%llguidance"


def lark(text: str, param: str) -> str:
    """`text`: what our own compiler hands to llguidance, a list of grammars. Raises InvalidField."""
    grammars = json.loads(text)["grammars"]
    if len(grammars) > 1:
        raise InvalidField(f"{param}: the vLLM engine takes one grammar, not a list of them", param)
    grammar = grammars[0]
    if "lark_grammar" in grammar:
        written: str = grammar["lark_grammar"]
    else:
        written = f"start: %json {json.dumps(grammar['json_schema'])}"
    # With the mark in front nothing in it is taken for GBNF.
    return written if _MARK in written else f"{_MARK} {{}}\n{written}"
