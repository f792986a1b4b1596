"""How large what a template makes may become: each step that can make much of little is weighed before it is taken.

Without this, a text that is doubled forty times, or one long text put in place of each letter of another, takes all of
the server's memory in a single step.
"""

from collections.abc import Iterable
from types import BuiltinMethodType
from typing import Any

from jinja2 import Environment, nodes, pass_environment
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter

MAX_CHARS = 32 * 2**20
_ENTRY_CHARS = 64  # an entry of a list counts as so many, times the lists that it is in
_MAX_BITS = 4096  # of a whole number
_NUMBERS = int | float


def weighed(value: Any) -> Any:
    """The value, if it is not too large once it is written as text. What a list holds twice is written twice."""
    if isinstance(value, list | tuple | dict):
        _check(0, [(value, 1)])
    return value


def _check(size: int, waiting: list[tuple[Any, int]]) -> None:
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, list | tuple):
            size += _ENTRY_CHARS * depth * len(each)
            waiting += [(entry, depth + 1) for entry in each] if size <= MAX_CHARS else ()
        elif isinstance(each, dict):
            waiting.append(([*each.keys(), *each.values()], depth))
        if size > MAX_CHARS:
            raise SecurityError("it makes too large a value")


def concat(pieces: Iterable[Any]) -> str:
    """As Jinja's."""
    texts: list[str] = []
    size = 0
    for piece in pieces:
        texts.append(str(weighed(piece)))
        size += len(texts[-1])
        _check_size(size)
    return "".join(texts)


def added(left: Any, right: Any) -> Any:
    if not isinstance(left, _NUMBERS):
        sizes = (len(each) for each in (left, right) if hasattr(each, "__len__"))
        _check_size(sum(sizes) * (1 if isinstance(left, str) else _ENTRY_CHARS))
    return left + right


def check_product(left: float, right: float) -> None:
    if sum(each.bit_length() for each in (left, right) if isinstance(each, int)) > _MAX_BITS:
        raise SecurityError("it makes too large a number")


def check_call(called: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a method of texts, if its result is not too large. They may be read only once."""
    text = getattr(called, "__self__", None)
    if not isinstance(called, BuiltinMethodType) or not isinstance(text, str):
        return arguments
    match called.__name__, arguments:
        case "join", [pieces]:
            return (_joinable(text, pieces),)
        case "replace", [str(old), str(new), *_]:
            _check_size(len(text) + text.count(old) * len(new))
        case "translate", _:
            raise SecurityError("translate is not for templates")
    return arguments


def _joinable(between: str, pieces: Iterable[Any]) -> list[Any]:
    found = list(pieces)
    _check(len(between) * len(found), [(found, 1)])
    return found


@pass_environment
def join(
    environment: Environment, value: Iterable[Any], d: Any = "", attribute: str | int | None = None
) -> str:
    """As the filter."""
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    between = str(weighed(d))
    return between.join(map(str, _joinable(between, value)))


def replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    """As the filter."""
    method = str(weighed(text)).replace
    arguments = (str(weighed(old)), str(weighed(new)), -1 if count is None else count)
    return method(*check_call(method, arguments))


def _check_size(size: int) -> None:
    if size > MAX_CHARS:
        raise SecurityError("it makes too large a value")


class Code(CodeGenerator):
    """a ~ b is joined by the environment, as all else is."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concat((")
        for each in node.nodes:
            self.visit(each, frame)
            self.write(", ")
        self.write("))")
