"""What chat templates use beyond Jinja's safe part: `'<{}>'.format(x)`, `'%02d' % n`, `| indent` and
`{% generation %}`."""

import re
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
from segue.dialects.templates.alive import made

_CONVERSION = re.compile(r"%(?:\(\w*\))?[-+ #0]*(\d{0,9})(?:\.(\d{0,9}))?[diouxXeEfFgGcs%]")
_NUMBER_CHARS = 2048  # of a number, but for what a width and a precision add


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


def modulo(left: Any, right: Any) -> Any:
    """Of numbers; or of a text, with what is put into it."""
    if isinstance(left, str):
        return percent_format(left, right)
    growth.check_numbers(left, right)
    return left % right


def filled(text: Any, *args: Any, **kwargs: Any) -> str:
    """As the filter `format`."""
    return percent_format(str(text), kwargs or args)


def percent_format(text: str, values: Any) -> str:
    """text % values."""
    growth.check_spread(text)
    fields = _CONVERSION.findall(text)
    if "%" in _CONVERSION.sub("", text):
        raise SecurityError("% takes %s, %d, %02d, %.2f, %(name)s and the like here")
    each_alone = values if isinstance(values, tuple) else (values,)
    longest = max((len(str(growth.weighed(each))) for each in each_alone), default=0)
    widths = sum(int(number) for field in fields for number in field if number)
    growth.check_size(len(text) + len(fields) * (longest + _NUMBER_CHARS) + widths)
    return str(made(str(text) % values))


def indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """As the filter."""
    text, each = str(text), len(width) if isinstance(width, str) else width
    growth.check_size(len(text) + (len(text.splitlines()) + 1) * (each + 1))
    return do_indent(text, width, first, blank)
