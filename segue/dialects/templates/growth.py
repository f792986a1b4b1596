"""How large what a template makes may become: each step that can make much of little is weighed before it is taken.

Without this, a text that is doubled forty times, or one long text put in place of each letter of another, takes all of
the server's memory in a single step; and two lists that are doubled so often are compared for ever, while nothing else
runs. Nor may what is kept of it together be much (alive.py).
"""

from collections.abc import Iterable
from typing import Any

from jinja2 import Environment, nodes, pass_environment
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.filters import do_round, make_attrgetter
from jinja2.utils import Namespace

from segue.dialects.templates.alive import made, made_with_entries, weight_of

MAX_CHARS = 32 * 2**20
_ENTRY_CHARS = 64  # an entry of a list counts as so many, times the lists that it is in
_MAX_BITS = 4096  # of a whole number
_MAX_DIGITS = 2000  # that a number is rounded to: more than it may have
_MAX_COMPARED = 2**30  # characters, where each of a text is compared with each of another
_ESCAPED_CHARS = 5  # that one becomes where texts are escaped
_NUMBERS = (int, float)
_REPEATED: Any = (str, list, tuple)
_LISTS: Any = (list, tuple, set, *map(type, ({}.keys(), {}.values(), {}.items())))
_MAKERS = (dict, dict.fromkeys, Namespace)  # of keys and values
_TOO_LARGE = "it makes too large a value"
_TOO_LARGE_NUMBER = "it makes too large a number"


def weighed(value: Any) -> Any:
    """The value, if it is not too large once it is written as text. What a list holds twice is written twice."""
    _check(0, [(value, 1)])
    return value


def held(value: Any) -> Any:
    """A list that a template writes, or the like."""
    return made(weighed(value))


def taken(value: Any) -> Any:
    """What a filter or a call gave. Pieces that would come one by one come now, as far as they are not too large."""
    if hasattr(value, "__next__"):
        return iter(made_with_entries(_listed(value)))
    if not isinstance(value, str) or len(value) > MAX_CHARS:
        _check(0, [(value, 1)])
    return made_with_entries(value)


def _listed(pieces: Iterable[Any], size: int = 0, each_more: int = 0) -> list[Any]:
    found: list[Any] = []
    for piece in pieces:
        found.append(piece)
        size = _check(size + _ENTRY_CHARS + each_more, [(piece, 2)])
    return found


def _check(size: int, waiting: list[tuple[Any, int]]) -> int:
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, _LISTS):
            size += _ENTRY_CHARS * depth * len(each)
            waiting += [(entry, depth + 1) for entry in each] if size <= MAX_CHARS else ()
        elif isinstance(each, dict):
            waiting.append(([*each.keys(), *each.values()], depth))
        elif isinstance(each, Namespace):
            waiting.append((object.__getattribute__(each, "_Namespace__attrs"), depth))
        elif isinstance(each, int):
            _check_bits(each.bit_length())
        if size > MAX_CHARS:  # a call would take longer than all of this
            raise SecurityError(_TOO_LARGE)
    return size


def concat(pieces: Iterable[Any]) -> str:
    """As Jinja's."""
    texts: list[str] = []
    size = 0
    for piece in pieces:
        texts.append(str(weighed(piece)))
        size += len(texts[-1])
        check_size(size)
    return str(made("".join(texts)))


def added(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        check_size(len(left) + len(right))
    if isinstance(left, (str, *_NUMBERS)):
        return made(left + right)
    weight = _weight(left) + _weight(right)
    check_size(weight)
    return made(left + right, weight)


def _weight(value: Any) -> int:
    """A long list that grows by one entry after the other is not read again each time."""
    known = weight_of(value)
    return _check(0, [(value, 1)]) if known is None else known


def subtracted(left: Any, right: Any) -> Any:
    """Of numbers; or of the keys of a dict, those that others do not have."""
    return taken(left - right)


def multiplied(left: Any, right: Any) -> Any:
    """A text or a list is repeated."""
    if isinstance(left, int) and isinstance(right, _REPEATED):
        left, right = right, left
    if not (isinstance(left, _REPEATED) and isinstance(right, int)):
        check_numbers(left, right)
        return left * right
    check_size(len(left) * right * (1 if isinstance(left, str) else _ENTRY_CHARS))
    return held(left * right)


def raised(left: Any, right: Any) -> Any:
    """To a power."""
    check_numbers(left, right)
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * right)
    return left**right


def check_numbers(left: Any, right: Any) -> None:
    """Before one is multiplied or divided by the other."""
    if not (isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)):
        raise SecurityError("texts and lists can be added, and multiplied by whole numbers, only")
    _check_bits(sum(each.bit_length() for each in (left, right) if isinstance(each, int)))


def _check_bits(num_bits: int) -> None:
    if num_bits > _MAX_BITS:
        raise SecurityError(_TOO_LARGE_NUMBER)


def check_call(called: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, if what a method of texts makes of them is not too large. They may be read only once."""
    if called in _MAKERS and arguments and not isinstance(arguments[0], dict):
        # One by one, so that the clock is looked at for each: a key that is like all before it is compared with them.
        return ((each for each in arguments[0]), *arguments[1:])
    text = getattr(called, "__self__", None)
    if not isinstance(text, str):
        return arguments
    most = _ESCAPED_CHARS if hasattr(text, "__html__") else 1
    match called.__name__, arguments:
        case "join", [pieces]:
            return (_listed(pieces, each_more=len(text) * most),)
        case "replace", [str(old), str(new), *_]:
            check_size(len(text) + text.count(old) * len(new) * most)
        case "split" | "rsplit" | "splitlines", [str(old), *_] if old:
            check_size(_ENTRY_CHARS * text.count(old))
            _check_compared(text, old)
        case "split" | "rsplit" | "splitlines", _:
            check_size(_ENTRY_CHARS * len(text))
        case "rfind" | "rindex" | "rpartition" | "strip" | "lstrip" | "rstrip", [str(other), *_]:
            _check_compared(text, other)
        case "translate", _:
            raise SecurityError("translate is not for templates")
    return arguments


def check_size(size: int) -> None:
    """Before so many characters are made."""
    if size > MAX_CHARS:
        raise SecurityError(_TOO_LARGE)


def check_spread(text: Any) -> None:
    """Before each character of a text becomes an entry of a list."""
    if isinstance(text, str):
        check_size(_ENTRY_CHARS * len(text))


@pass_environment
def join(
    environment: Environment, value: Iterable[Any], d: Any = "", attribute: str | int | None = None
) -> str:
    """As the filter."""
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    between = str(d)
    return between.join(map(str, _listed(value, each_more=len(between))))


@pass_environment
def sum_of(
    environment: Environment,
    value: Iterable[Any],
    attribute: str | int | None = None,
    start: Any = 0,
) -> Any:
    """As the filter."""
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    for each in value:
        start = added(start, each)
    return start


def replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    """As the filter."""
    method = str(text).replace
    return method(*check_call(method, (str(old), str(new), -1 if count is None else count)))


def trim(text: Any, chars: str | None = None) -> str:
    """As the filter."""
    method = str(text).strip
    return method(*check_call(method, (chars,)))


def rounded(value: float, precision: int = 0, method: Any = "common") -> float:
    """As the filter."""
    return do_round(value, max(-_MAX_DIGITS, min(precision, _MAX_DIGITS)), method)


def _check_compared(text: str, other: str) -> None:
    if len(text) * len(other) > _MAX_COMPARED:
        raise SecurityError("it compares too long texts")


class Code(CodeGenerator):
    """a ~ b is joined by the environment, as all else is; what lists hold is weighed when they are made, and slices
    count as made. Nothing is computed before the template runs, which has no bound of time."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concat((")
        for each in node.nodes:
            self.visit(each, frame)
            self.write(", ")
        self.write("))")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self._give("held", super().visit_List, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self._give("held", super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self._give("held", super().visit_Dict, node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            self._give("made", super().visit_Getitem, node, frame)
        else:
            super().visit_Getitem(node, frame)

    def _give(self, taker: str, visit: Any, node: nodes.Expr, frame: Frame) -> None:
        self.write(f"environment.{taker}(")
        visit(node, frame)
        self.write(")")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.TemplateData):
            return super()._output_child_to_const(node, frame, finalize)
        raise nodes.Impossible
