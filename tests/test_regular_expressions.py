"""No regular expression of ours takes more than linear time, whatever text it meets.

Every pattern in the package is parsed and held to three rules. Of what an unbounded repetition consumes:

1. nothing inside a repetition that can give characters back (backtrack) is itself unbounded;
2. two repetitions that could share characters do not follow each other, unless the first never gives back (`*+`);
3. where a search can begin anywhere, a failed try does not begin again inside what it consumed: what follows the
   repetition cannot fail, or the repetition consumes nothing that a match begins with, or nothing that a match may
   follow (`(?<!x)` before it).
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants as op
from re import _parser as parser
from typing import Any, NamedTuple

import pytest

from segue.engine.constraints import lark_check
from segue.engine.constraints.grammar import GrammarError

PACKAGE = Path(__file__).parent.parent / "segue"
# Patterns made at random, for texts of a few characters; those of models, as they are, and sets of their characters.
OTHERS = (
    PACKAGE / "bench" / "exactness",
    PACKAGE / "models" / "vocabulary" / "words",
    PACKAGE / "models" / "vocabulary" / "safe_cuts.py",
)
UNIVERSE = frozenset(map(chr, range(256))) | frozenset("Ωд中\u2028\ud800")
ANCHORED_CALLS = {"match", "fullmatch"}

Nodes = list[tuple[Any, Any]]


class Pattern(NamedTuple):
    where: str
    text: str
    flags: int
    is_anchored: bool  # only ever tried at one place


# --- which there are ------------------------------------------------------------------------------


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=bytes() as value):
            return value.decode("latin-1")
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_text(value) for value in values)
        case ast.FormattedValue(value=ast.Call(func=ast.Attribute(attr="escape"))):
            return "x"  # a literal, whatever it is
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value="|"), attr="join"),
            args=[ast.Call(func=ast.Name(id="map"), args=[ast.Attribute(attr="escape"), *_])],
        ):
            return "x|y"  # one of several literals
    raise AssertionError(f"line {node.lineno}: a pattern must be readable by this test")


def _patterns() -> Iterator[Pattern]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path in OTHERS or path.parent in OTHERS:
            continue
        source = path.read_text("utf-8")
        if not re.search(r"\bre\.", source):
            continue  # most modules: walking their trees would take seconds of every worker
        tree = ast.parse(source)
        uses: dict[str, set[str]] = {}
        names: dict[ast.Call, str] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attr):
                    uses.setdefault(name, set()).add(attr)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    names[call] = name
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr)) if (
                    attr != "escape"
                ):
                    calls = uses.get(names.get(node, ""), set()) if attr == "compile" else {attr}
                    flags = 0
                    for flag in ast.walk(node):
                        if isinstance(flag, ast.Attribute) and flag.attr.isupper():
                            flags |= getattr(re, flag.attr)
                    where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                    anchored = bool(calls) and calls <= ANCHORED_CALLS
                    yield Pattern(where, _text(node.args[0]), flags, anchored)


# --- what they can do -----------------------------------------------------------------------------

_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_MANY = 1000


def _members(items: Nodes) -> frozenset[str]:
    found: set[str] = set()
    for kind, value in items:
        if kind is op.LITERAL:
            found |= {chr(value), chr(value).lower(), chr(value).upper()}
        elif kind is op.RANGE:
            found |= {c for c in UNIVERSE if value[0] <= ord(c) <= value[1]}
        elif kind is op.CATEGORY:
            found |= {c for c in UNIVERSE if re.match(_CATEGORIES[value], c)}
    is_negated = bool(items) and items[0][0] is op.NEGATE
    return UNIVERSE - found if is_negated else frozenset(found)


def _parts(node: tuple[Any, Any]) -> list[Nodes]:
    """The sequences inside a node, one of which is matched."""
    kind, value = node
    if kind in _REPEATS:
        return [list(value[2])]
    if kind is op.SUBPATTERN:
        return [list(value[3])]
    if kind is op.BRANCH:
        return [list(branch) for branch in value[1]]
    if kind is op.ATOMIC_GROUP:
        return [list(value)]
    return []


def _single(node: tuple[Any, Any]) -> frozenset[str] | None:
    kind, value = node
    if kind is op.LITERAL:
        return _members([node])
    if kind is op.NOT_LITERAL:
        return UNIVERSE - {chr(value)}
    if kind is op.ANY:
        return UNIVERSE
    return _members(list(value)) if kind is op.IN else None


def _consumed(nodes: Nodes) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for node in nodes:
        single = _single(node)
        found |= single if single is not None else frozenset()
        for part in _parts(node):
            found |= _consumed(part)
    return found


def _can_be_empty(nodes: Nodes) -> bool:
    """Whether they cannot fail, wherever they are tried."""
    return all(
        (node[0] in _REPEATS and node[1][0] == 0)
        or any(_can_be_empty(part) for part in _parts(node))
        for node in nodes
    )


def _first(nodes: Nodes) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for node in nodes:
        single = _single(node)
        found |= single if single is not None else frozenset()
        for part in _parts(node):
            found |= _first(part)
        if not _can_be_empty([node]) and node[0] not in (op.AT, op.ASSERT, op.ASSERT_NOT):
            return found
    return found


def _never_after(nodes: Nodes) -> frozenset[str]:
    """Characters right after which no match begins."""
    match nodes[:1]:
        case [(op.ASSERT_NOT, (-1, inside))] if len(inside) == 1:
            return _single(inside[0]) or frozenset()
    return frozenset()


def _repeats(nodes: Nodes) -> Iterator[tuple[Any, Nodes, Nodes]]:
    """Every unbounded repetition: its kind, its body, and all that must match after it."""
    for at, node in enumerate(nodes):
        rest = nodes[at + 1 :]
        kind, value = node
        if kind in (op.ASSERT, op.ASSERT_NOT):
            yield from _repeats(list(value[1]))
            continue
        if kind in _REPEATS and value[1] > _MANY:
            yield kind, list(value[2]), rest
        for part in _parts(node):
            for inner, body, after in _repeats(part):
                yield inner, body, [*after, *rest]


def problems(text: str, flags: int, is_anchored: bool) -> list[str]:
    nodes = list(parser.parse(text, flags))
    found: list[str] = []
    by_line = nodes[:1] == [(op.AT, op.AT_BEGINNING)] and flags & re.MULTILINE
    is_anchored |= nodes[:1] in ([(op.AT, op.AT_BEGINNING)], [(op.AT, op.AT_BEGINNING_STRING)])
    for kind, body, rest in _repeats(nodes):
        gives_back = kind is not op.POSSESSIVE_REPEAT
        if gives_back and any(True for _ in _repeats(body)):
            found.append("a repetition inside a repetition")
        follows = any(True for _ in _repeats(rest))
        if gives_back and follows and _consumed(body) & _first(rest):
            found.append("repetitions that overlap")
        if _can_be_empty(rest):
            continue
        if by_line and "\n" in _consumed(body):
            found.append("a line's match that reads on into the next")
        restarts = _consumed(body) & _first(nodes) and not _consumed(body) <= _never_after(nodes)
        if not is_anchored and restarts:
            found.append("a failed try begins again inside what it consumed")
    return found


ALL = list(_patterns())


def test_patterns_are_found() -> None:
    assert len(ALL) >= 20


@pytest.mark.parametrize("pattern", ALL, ids=lambda pattern: pattern.where)
def test_every_regular_expression_is_linear(pattern: Pattern) -> None:
    assert not problems(pattern.text, pattern.flags, pattern.is_anchored)


@pytest.mark.parametrize(
    "text",
    [
        r"^[ \t]*[!?]?_?[A-Za-z][\w-]*[^:\n]*:",
        r"(a+)+b",
        r"\s+$",
        r'"(?:\\.|[^"\\])*"',
        r"\b[A-Z][A-Z-]*(?!\w)",
        r"(?:a|b)*(?:b|c)*d",
        r"(?<!a)[ab]++c",
    ],
)
def test_the_rules_see_what_is_quadratic(text: str) -> None:
    assert problems(text, re.MULTILINE, is_anchored=False)


@pytest.mark.parametrize(
    "text",
    [r"\{(\w+)(:\w+)?\}", r"\W+", r"~(?!\s*\d)", r'"(?:\\.|[^"])*+"?+', r"(?<![ab])[ab]++c"],
)
def test_the_rules_let_linear_ones_pass(text: str) -> None:
    assert not problems(text, 0, is_anchored=False)


SIZE = 262_144  # the longest Lark text that is accepted


@pytest.mark.parametrize(
    "text",
    [
        "start: " + "a" * SIZE,
        "a" * SIZE,
        '"' + '\\"' * (SIZE // 2),
        "/" + "\\/" * (SIZE // 2),
        "A-" * (SIZE // 2) + "a",
        "%json " * (SIZE // 6),
        "%json {" * (SIZE // 7),
        '%json {"' + '\\"' * (SIZE // 2),
        "~ " * (SIZE // 2),
        " " * SIZE + ":",
    ],
    ids=lambda text: text[:12],
)
def test_lark_texts_of_any_shape_are_read_at_once(text: str) -> None:
    """Quadratic, each of these takes minutes: the suite would not end."""
    try:
        lark_check.check(text)
        lark_check.replaced(text, str)
    except GrammarError as error:
        assert str(error)  # noqa: PT017 - refused or not, it is read
