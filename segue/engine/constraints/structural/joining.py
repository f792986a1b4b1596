"""Puts the parts of a format one after another, so that free text ends with the text that follows it."""

from itertools import chain

from segue.engine.constraints.grammar import (
    EMPTY,
    Either,
    Free,
    Literal,
    Node,
    Repeat,
    Seq,
    either,
    seq,
)


def literal(text: str) -> Node:
    return Literal(text) if text else EMPTY


def one_after_another(*items: Node) -> Node:
    """One after the other. A text that follows a free one is put right behind it: as one lexeme they have one end."""
    found: list[Node] = []
    for item in chain.from_iterable(map(_flat, items)):
        if found and _is_text(item) and _ends_free(found[-1]):
            found[-1:] = _flat(_pushed(found[-1], item))
        else:
            found.append(item)
    return seq(*found)


def _flat(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Seq) else (node,)


def _is_text(node: Node) -> bool:
    options = node.options if isinstance(node, Either) else (node,)
    return all(isinstance(option, Literal) or option == EMPTY for option in options)


def _ends_free(node: Node) -> bool:
    match node:
        case Free(until=None):
            return True
        case Seq(items):
            return bool(items) and _ends_free(items[-1])
        case Either(options):
            return any(map(_ends_free, options))
        case Repeat(item, 0, 1):
            return _ends_free(item)
    return False


def _pushed(node: Node, text: Node) -> Node:
    match node:
        case Seq(items) if items:
            return one_after_another(*items[:-1], *_flat(_pushed(items[-1], text)))
        case Either(options):
            return Either(tuple(_pushed(option, text) for option in options))
        case Repeat(item, 0, 1) if _ends_free(item):
            return either(_pushed(item, text), text)
    return Seq((*_flat(node), *_flat(text)))
