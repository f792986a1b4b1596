"""What chat templates use beyond Jinja's safe part: `'<{}>'.format(x)`, `| indent` and `{% generation %}`."""

import string
from collections.abc import Callable
from types import BuiltinMethodType
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.filters import do_indent
from jinja2.parser import Parser

from segue.dialects.templates import growth


class Generation(Extension):
    """`{% generation %}` marks what the model wrote, for training; here its content is as any other."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def str_format(method: Any) -> Callable[..., str] | None:
    """A safe one for a text's `format`, None for all else. Texts are put in as they are: a width could be any length,
    and an attribute could lead anywhere."""
    if not isinstance(method, BuiltinMethodType) or method.__name__ != "format":
        return None
    return _format(method.__self__) if isinstance(method.__self__, str) else None


def _format(text: str) -> Callable[..., str]:
    def put_in(*args: Any, **kwargs: Any) -> str:
        growth.check_spread(text)
        fields = [field for field in string.Formatter().parse(text) if field[1] is not None]
        if any(map(_is_particular, fields)):
            raise SecurityError("format takes {}, {0} and {name} here, as they are")
        texts, named = [*map(str, args)], {key: str(each) for key, each in kwargs.items()}
        longest = max(map(len, (*texts, *named.values())), default=0)
        growth.check_size(len(text) + len(fields) * longest)
        return text.format(*texts, **named)

    return put_in


def _is_particular(field: tuple[str, str | None, str | None, str | None]) -> bool:
    _, name, spec, conversion = field
    return bool(spec or conversion or (name and not name.isdigit() and not name.isidentifier()))


def indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """As the filter."""
    text, each = str(text), len(width) if isinstance(width, str) else width
    growth.check_size(len(text) + (len(text.splitlines()) + 1) * (each + 1))
    return do_indent(text, width, first, blank)
