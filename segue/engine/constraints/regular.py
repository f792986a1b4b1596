"""Analyses a grammar before it is written: which rules are regular, whether it can end, what matches one text alone."""

from collections.abc import Iterator, Mapping, Set
from itertools import groupby

from segue.engine.constraints.grammar import (
    EMPTY,
    Chars,
    Either,
    GrammarError,
    Literal,
    Nested,
    Node,
    Pieces,
    Ref,
    Repeat,
    Rules,
    Seq,
    Tokens,
    children,
    either,
    parts,
    refs,
    seq,
    settled,
)

# Of a regular expression, through the rules it uses; what it costs grows with the square.
MAX_DEPTH = 500
_MAX_CHARS = 64  # of what is put together: rules that double a text would make long ones


def straightened(rules: Rules) -> Rules:
    """Rules that only repeat themselves at their end, `ws ::= " " ws | ""`, as repetitions; the reachable ones."""
    kept: Rules = {}
    stack = ["root"]
    while stack:
        name = stack.pop()
        if name not in kept:
            kept[name] = _unrolled(name, rules[name])
            stack.extend(refs(kept[name]))
    return kept


def _unrolled(name: str, body: Node) -> Node:
    divided = _split(name, body)
    if divided is None or not divided[0]:
        return body
    again, rest = divided
    # A = again A | rest is again* rest. Without a rest it never ends, which is found out later.
    return seq(Repeat(either(*again), 0, None), either(*rest)) if rest else body


def _split(name: str, node: Node) -> tuple[list[Node], list[Node]] | None:
    """The alternatives with the rule's own name at their end, and those without. None: not of this form."""
    if name not in refs(node):
        return [], [node]
    match node:
        case Ref():
            return [EMPTY], []
        case Seq(items):
            if any(name in refs(item) for item in items[:-1]):
                return None
            last = _split(name, items[-1])
            if last is None:
                return None
            return [seq(*items[:-1], a) for a in last[0]], [seq(*items[:-1], r) for r in last[1]]
        case Either(options):
            divided = [_split(name, option) for option in options]
            if any(part is None for part in divided):
                return None
            known = [part for part in divided if part is not None]
            return [a for p in known for a in p[0]], [r for p in known for r in p[1]]
        case Repeat(item, 0, 1):
            inner = _split(name, item)
            return None if inner is None else (inner[0], [*inner[1], EMPTY])
    return None


def regular_names(rules: Rules) -> frozenset[str]:
    """Rules that do not lead back to themselves, and use only such rules. Raises GrammarError if one is too deep."""
    depths: dict[str, int] = {}
    used = {name: frozenset(refs(body)) for name, body in rules.items()}
    whole = [name for name, body in rules.items() if isinstance(body, Nested | Pieces | Tokens)]
    used |= {name: frozenset({name}) for name in whole}  # which none is ready for
    for name in settled(used, lambda name, found: used[name] <= found):
        depths[name] = _depth(rules[name], depths)
        if depths[name] > MAX_DEPTH:
            raise GrammarError(f"rule {name} is nested more than {MAX_DEPTH} deep")
    return frozenset(depths)


def _depth(node: Node, depths: dict[str, int]) -> int:
    if isinstance(node, Ref):
        return depths[node.name]
    inner = [_depth(child, depths) for child in children(node)]
    return max(inner, default=0) + (len(inner) > 1 or isinstance(node, Repeat))


def pruned(rules: Rules) -> Rules | None:
    """The rules without alternatives that no finite text matches; None if no text matches root."""
    used = {name: frozenset(refs(body)) for name, body in rules.items()}
    ending = frozenset(settled(used, lambda name, found: _can_end(rules[name], found)))
    if "root" not in ending:
        return None
    return {name: _without_dead(rules[name], ending) for name in rules if name in ending}


def _can_end(node: Node, ending: Set[str]) -> bool:
    match node:
        case Ref(name):
            return name in ending
        case Either(options):
            return any(_can_end(option, ending) for option in options)
        case Repeat(item, least):
            return least == 0 or _can_end(item, ending)
    return all(_can_end(child, ending) for child in children(node))


def _without_dead(node: Node, ending: Set[str]) -> Node:
    """Of a node that can end: what can never be finished is left out."""
    match node:
        case Seq(items):
            return type(node)(tuple(_without_dead(item, ending) for item in items))
        case Either(options):
            return either(
                *(_without_dead(option, ending) for option in options if _can_end(option, ending))
            )
        case Repeat(item, least, most):
            if not _can_end(item, ending):
                return EMPTY
            return Repeat(_without_dead(item, ending), least, most)
    return node


# --- parts that match one text alone ----------------------------------------------------------------
# They are written as that text: llguidance fails on alternatives that are one text, put together in two ways, `"true" |
# "tr" "ue"`.


def constant_rules(rules: Rules) -> dict[str, str]:
    """The rules that match one text alone, with that text."""
    used = {name: frozenset(refs(body)) for name, body in rules.items()}
    known: dict[str, str] = {}
    for name in settled(used, lambda name, found: used[name] <= found):
        if (text := constant(rules[name], known)) is not None:
            known[name] = text
    return known


def constant(node: Node, known: Mapping[str, str]) -> str | None:
    """The only text that matches. None: there are others, or it is long. `known`: the rules that match one."""
    match node:
        case Literal(text):
            return text
        case Chars(((low, high),)) if low == high:
            return chr(low)
        case Ref(name):
            return known.get(name)
        case Seq(items):
            whole = ""
            for item in items:
                piece = constant(item, known)
                if piece is None or len(whole) + len(piece) > _MAX_CHARS:
                    return None
                whole += piece
            return whole
        case Either((first, *others)):
            only = constant(first, known)
            is_same = only is not None and all(constant(each, known) == only for each in others)
            return only if is_same else None
    return None


def joined(node: Seq, known: Mapping[str, str]) -> Iterator[Node]:
    """Its parts; neighbours that match one text each are one literal, if that is not long."""
    told = [(part, constant(part, known)) for part in parts(node)]
    for is_constant, run in groupby(told, lambda each: each[1] is not None):
        both = list(run)
        text = "".join(text or "" for _, text in both)
        if is_constant and len(both) > 1 and len(text) <= _MAX_CHARS:
            yield Literal(text)
        else:
            yield from (part for part, _ in both)
