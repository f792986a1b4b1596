"""Formats of tokens: one, any, and any among which formats must follow those that announce them."""

from segue.engine.constraints import gbnf
from segue.engine.constraints.grammar import Node, Repeat, either, seq
from segue.engine.constraints.schemas.values import Json
from segue.engine.constraints.structural import shapes
from segue.engine.constraints.structural.joining import one_after_another
from segue.engine.constraints.structural.shapes import read
from segue.engine.constraints.structural.tags import rest
from segue.engine.constraints.structural.walking import At, Walker
from segue.engine.constraints.tokens import Named


def token(walker: Walker, own: shapes.Token, at: At) -> Node:
    with at.blamed():
        return walker.rule(walker.tokens.named(own.token, at.place))


def exclude_token(walker: Walker, own: shapes.ExcludeToken, at: At) -> Node:
    return _any_but(walker, own.exclude_tokens, at)


def any_tokens(walker: Walker, own: shapes.AnyTokens, at: At) -> Node:
    if own.max_tokens is not None and own.max_tokens > gbnf.MAX_COUNT:
        raise at.error(f"max_tokens may be at most {gbnf.MAX_COUNT}")
    return Repeat(_any_but(walker, own.exclude_tokens, at), 0, own.max_tokens)


def triggered(walker: Walker, own: shapes.TokenTriggered, at: At) -> Node:
    """Any tokens, in which a tag must follow if it begins with a trigger, which each of them does."""
    with at.blamed():
        triggers = frozenset().union(*map(walker.tokens.ids, own.trigger_tokens))
    tags = [_tag(walker, t, at.inside(f"tags[{i}]"), triggers) for i, t in enumerate(own.tags)]
    if own.at_least_one and own.stop_after_first:
        return either(*tags)
    excluded = [*own.trigger_tokens, *own.exclude_tokens]
    after = _dispatched(walker, tags, excluded, not own.stop_after_first, at)
    return one_after_another(either(*tags), after) if own.at_least_one else after


def dispatch(walker: Walker, own: shapes.TokenDispatch, at: At) -> Node:
    """Any tokens, in which a rule's format must follow its token."""
    hits: list[Node] = []
    for number, (named, value) in enumerate(own.rules):
        begin = token(walker, shapes.Token(token=named), at.inside(f"rules[{number}][0]"))
        content = walker.format(value, at.inside(f"rules[{number}][1]"))
        hits.append(one_after_another(begin, content))
    excluded = [*(named for named, _ in own.rules), *own.exclude_tokens]
    return _dispatched(walker, hits, excluded, own.loop, at)


def _tag(walker: Walker, value: Json, at: At, triggers: frozenset[int]) -> Node:
    walker.kind(value, at, "tag")
    own = read(shapes.Tag, value, at.place)
    inner = at.inside("begin")
    if isinstance(own.begin, str):
        raise inner.error("it must be a token; triggered_tags begin with texts")
    begin = read(shapes.Token, own.begin, inner.place)
    with inner.blamed():
        if not walker.tokens.ids(begin.token) <= triggers:
            raise inner.error(f"no trigger is the token {begin.token!r}")
    return one_after_another(token(walker, begin, inner), rest(walker, own, at))


def _dispatched(
    walker: Walker, hits: list[Node], excluded: list[Named], is_loop: bool, at: At
) -> Node:
    free = Repeat(_any_but(walker, excluded, at), 0, None)
    if is_loop:
        return seq(free, Repeat(seq(either(*hits), free), 0, None))
    return seq(free, Repeat(either(*hits), 0, 1))


def _any_but(walker: Walker, excluded: list[Named], at: At) -> Node:
    with at.blamed():
        ids = at.end_tokens.union(*map(walker.tokens.ids, excluded))
        return walker.rule(walker.tokens.any_but(ids, at.place))
