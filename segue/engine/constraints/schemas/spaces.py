"""White space in JSON: one piece of it may follow every part of a text but the last.

It is written into the rules. The compiler's own way, text that is ignored, has no limit before llguidance 1.8, and lets
space follow a whole text where another one may begin.
"""

from segue.engine.constraints.grammar import Node, Ref, Repeat, Rules, Terminal, seq
from segue.engine.constraints.schemas.options import Options, slashed

SPACE, _COMMA, _COLON = Ref("space"), Ref("comma"), Ref("colon")


class Spaces:
    def __init__(self, options: Options) -> None:
        self.comma: Node = _separator(options.item_separator)
        self.colon: Node = _separator(options.key_separator)
        self.rules: Rules = {}  # that these refer to, and what has space after it
        self._has_some = options.whitespace is not None
        if options.whitespace is not None:
            # A comma and a colon are rules, so that many properties that go on with one look for its space once.
            self.rules = {
                SPACE.name: Repeat(regex(options.whitespace), 0, 1),
                _COMMA.name: seq(self.comma, SPACE),
                _COLON.name: seq(SPACE, self.colon, SPACE),
            }
            self.comma, self.colon = _COMMA, _COLON

    def after(self, part: Node) -> Node:
        """The part, and space."""
        return seq(part, SPACE) if self._has_some else part


def _separator(source: str) -> Node:
    return Terminal(f'"{source}"') if source in (",", ":") else regex(source)


def regex(source: str) -> Node:
    return Terminal(f"/{slashed(source)}/")
