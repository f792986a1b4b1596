"""Tags, and free text in which tags or other formats must follow the texts that announce them."""

from collections.abc import Iterable
from typing import NamedTuple

from segue.engine.constraints.free_text import can_come_first, is_entangled
from segue.engine.constraints.grammar import Free, GrammarError, Node, Repeat, either
from segue.engine.constraints.schemas.values import Json
from segue.engine.constraints.structural import shapes
from segue.engine.constraints.structural.joining import literal, one_after_another
from segue.engine.constraints.structural.shapes import read
from segue.engine.constraints.structural.texts import schema
from segue.engine.constraints.structural.walking import At, Walker

MAX_STRUCTURES = 1000


def tag(walker: Walker, own: shapes.Tag, at: At) -> Node:
    inner = at.inside("begin")
    begin = (
        literal(own.begin)
        if isinstance(own.begin, str)
        else walker.format(own.begin, inner, "token")
    )
    return one_after_another(begin, rest(walker, own, at))


def rest(walker: Walker, own: shapes.Tag, at: At) -> Node:
    """The content and the end."""
    inner = at.inside("content")
    if isinstance(own.end, dict):
        end = walker.format(own.end, at.inside("end"), "token")
        token = read(shapes.Token, own.end, at.inside("end").place).token
        around = inner._replace(ends=(), end_tokens=walker.tokens.ids(token))
        return one_after_another(walker.format(own.content, around), end)
    ends = tuple(own.end) if isinstance(own.end, list) else (own.end,)
    texts = tuple(dict.fromkeys(filter(None, ends)))
    around = inner._replace(ends=texts, end_tokens=frozenset())
    content = walker.format(own.content, around)
    if content == Free(texts) and is_entangled(texts):
        # It ends with the first of the ends: which one is meant could not be told once more text follows.
        firsts: list[Node] = [
            Free(texts, end, place=inner.place)
            for end in texts
            if can_come_first(end, texts, texts)
        ]
        return either(*firsts, *([content] if "" in ends else []))
    return one_after_another(content, either(*map(literal, ends)))


def triggered(walker: Walker, own: shapes.Triggered, at: At) -> Node:
    """Free text, in which one of a trigger's tags must follow the trigger."""
    tags = [_triggered_tag(walker, t, at.inside(f"tags[{i}]")) for i, t in enumerate(own.tags)]
    rests = _by_trigger(own.triggers, tags)
    first = either(*(one_after_another(literal(tag.begin), tag.rest) for tag in tags))
    if own.at_least_one and own.stop_after_first:
        return first
    after = _dispatched(rests, [*own.excludes, *at.ends], not own.stop_after_first, at)
    return one_after_another(first, after) if own.at_least_one else after


def dispatch(walker: Walker, own: shapes.Dispatch, at: At) -> Node:
    """Free text, in which a rule's format must follow its text."""
    follows: dict[str, list[Node]] = {}
    for number, (text, value) in enumerate(own.rules):
        content = walker.format(value, at.inside(f"rules[{number}][1]"))
        follows.setdefault(text, []).append(content)
    return _dispatched(follows, own.excludes, own.loop, at)


def separated(walker: Walker, own: shapes.Separated, at: At) -> Node:
    tags = [walker.format(t, at.inside(f"tags[{i}]"), "tag") for i, t in enumerate(own.tags)]
    more = Repeat(one_after_another(literal(own.separator), either(*tags)), 0, None)
    whole = either(*tags)
    if not own.stop_after_first:
        whole = one_after_another(whole, more)
    return whole if own.at_least_one else Repeat(whole, 0, 1)


def structures(walker: Walker, own: shapes.Structures) -> Node:
    """The older form. Errors name what it has: structures, begin, schema and triggers."""
    if len(own.structures) > MAX_STRUCTURES:
        raise GrammarError(f"structures: there are more than {MAX_STRUCTURES}")
    tags = [_structure(walker, each, number) for number, each in enumerate(own.structures)]
    triggers = [trigger for trigger in own.triggers if trigger]
    return _dispatched(_by_trigger(triggers, tags), [], True, At("triggers"))


# --- what follows a trigger -----------------------------------------------------------------------


class _Tag(NamedTuple):
    begin: str
    rest: Node  # the content and the end
    at: At


def _triggered_tag(walker: Walker, value: Json, at: At) -> _Tag:
    walker.kind(value, at, "tag")
    own = read(shapes.Tag, value, at.place)
    if not isinstance(own.begin, str):
        raise at.inside("begin").error("it must be a text; token_triggered_tags begin with tokens")
    return _Tag(own.begin, rest(walker, own, at), at)


def _structure(walker: Walker, own: shapes.Structure, number: int) -> _Tag:
    at = At(f"structures[{number}]")
    content = schema(walker, shapes.Schema(json_schema=own.schema), at.inside("schema"))
    return _Tag(own.begin, one_after_another(content, literal(own.end)), at)


def _by_trigger(triggers: Iterable[str], tags: list[_Tag]) -> dict[str, list[Node]]:
    """What may follow each trigger: the rest of the tags that begin with it. Of two the shorter one appears first."""
    rests: dict[str, list[Node]] = {trigger: [] for trigger in triggers}
    for own in tags:
        trigger = min((t for t in rests if own.begin.startswith(t)), key=len, default=None)
        if trigger is None:
            raise own.at.inside("begin").error(f"no trigger begins {own.begin!r}")
        rests[trigger].append(one_after_another(literal(own.begin[len(trigger) :]), own.rest))
    return rests


def _dispatched(follows: dict[str, list[Node]], excludes: list[str], is_loop: bool, at: At) -> Node:
    stops = at.stops([*follows, *excludes])
    free = Free(stops, place=at.place)
    wanted = follows.keys() - set(excludes)
    hits = [
        one_after_another(Free(stops, trigger, place=at.place), either(*nodes))
        for trigger, nodes in follows.items()
        if nodes and trigger in wanted and can_come_first(trigger, stops, wanted)
    ]
    if not hits:
        return free
    if not is_loop:
        return either(*hits, free)
    return one_after_another(Repeat(either(*hits), 0, None), free)
