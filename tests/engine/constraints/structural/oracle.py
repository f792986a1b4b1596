"""A matcher of structural tags that knows nothing of grammars: where may a format end, if it begins here?"""

import re
from collections.abc import Callable
from typing import Any

Format = dict[str, Any]
Ends = frozenset[int]
Around = tuple[str | Format, ...]  # the ends of the tag around a format: texts, or a token

NUMBER = {"type": "integer"}
PAIR = {
    "type": "object",
    "properties": {"a": {"enum": [1, "x"]}},
    "required": ["a"],
    "additionalProperties": False,
}
SPACE = r"(?: |\n[ \t]{0,40})?"
SCHEMAS = [
    (NUMBER, r"0|-?[1-9][0-9]*"),
    (PAIR, rf'\{{{SPACE}"a"{SPACE}:{SPACE}(?:1|1\.0|"x"){SPACE}\}}'),
]


END = 256  # the token that ends an answer
CONTROL = 0x10F000  # a control token is this character plus its id, which is part of no text


def accepts(whole: Format, text: str) -> bool:
    return len(text) in _Matcher(text, {}).ends(whole, 0, ())


def accepts_tokens(whole: Format, tokens: list[tuple[int, str]]) -> bool:
    """Each with its id and text."""
    starts: dict[int, tuple[int, int]] = {}
    text = ""
    for token, piece in tokens:
        starts[len(text)] = token, len(text) + len(piece)
        text += piece
    return len(text) in _Matcher(text, starts).ends(whole, 0, ())


class _Matcher:
    def __init__(self, text: str, starts: dict[int, tuple[int, int]]) -> None:
        self.text = text
        self.starts = starts  # where tokens begin: their ids, and where they end

    def ends(self, own: Format, at: int, around: Around) -> Ends:
        kinds: dict[str, Callable[[Format, int, Around], Ends]] = {
            "any_text": self.any_text,
            "const_string": lambda own, at, _: self.literal(own["value"], at),
            "regex": lambda own, at, _: self.regex(own["pattern"], at),
            "json_schema": lambda own, at, _: self.regex(
                next(r for s, r in SCHEMAS if s == own["json_schema"]), at
            ),
            "sequence": self.sequence,
            "or": lambda own, at, around: self.union(
                self.ends(e, at, around) for e in own["elements"]
            ),
            "optional": lambda own, at, around: self.times(own["content"], at, around, 0, 1),
            "star": lambda own, at, around: self.times(own["content"], at, around, 0, -1),
            "plus": lambda own, at, around: self.times(own["content"], at, around, 1, -1),
            "repeat": lambda own, at, around: self.times(
                own["content"], at, around, own["min"], own["max"]
            ),
            "tag": lambda own, at, _: self.tag(own, at),
            "triggered_tags": self.triggered,
            "dispatch": self.own_dispatch,
            "tags_with_separator": lambda own, at, _: self.separated(own, at),
            "token": lambda own, at, _: self.token(at, {own["token"]}),
            "exclude_token": lambda own, at, around: self.token(at, self.allowed(own, around)),
            "any_tokens": self.any_tokens,
            "token_triggered_tags": self.token_triggered,
            "token_dispatch": self.token_dispatch,
        }
        return kinds[own["type"]](own, at, around)

    @staticmethod
    def union(several: Any) -> Ends:
        return frozenset().union(*several)

    def literal(self, value: str, at: int) -> Ends:
        return frozenset({at + len(value)} if self.text.startswith(value, at) else ())

    def regex(self, pattern: str, at: int) -> Ends:
        compiled = re.compile(pattern)
        return frozenset(
            end for end in range(at, len(self.text) + 1) if compiled.fullmatch(self.text, at, end)
        )

    def any_text(self, own: Format, at: int, around: Around) -> Ends:
        banned = [*own.get("excludes", []), *_texts(around)]
        most = own.get("max_chars", len(self.text))
        return frozenset(
            end
            for end in range(at, min(len(self.text), at + most) + 1)
            if not any(b in self.text[at:end] for b in banned)
            and all(ord(c) < CONTROL for c in self.text[at:end])
        )

    def sequence(self, own: Format, at: int, around: Around) -> Ends:
        found: Ends = frozenset({at})
        for element in own["elements"]:
            found = self.union(self.ends(element, start, around) for start in found)
        return found

    def times(self, own: Format, at: int, around: Around, least: int, most: int) -> Ends:
        found: Ends = frozenset({at})
        for _ in range(least):
            found = self.union(self.ends(own, start, around) for start in found)
        new, num = found, least
        while new and num != most:
            new = self.union(self.ends(own, start, around) for start in new) - found
            found, num = found | new, num + 1
        return found

    def tag(self, own: Format, at: int) -> Ends:
        ends = tuple(own["end"]) if isinstance(own["end"], list) else (own["end"],)
        return self.union(
            self.edge(end, stop)
            for start in self.edge(own["begin"], at)
            for stop in self.ends(own["content"], start, ends)
            for end in ends
        )

    def edge(self, own: str | Format, at: int) -> Ends:
        return self.literal(own, at) if isinstance(own, str) else self.token(at, {own["token"]})

    def triggered(self, own: Format, at: int, around: Around) -> Ends:
        first = self.union(self.tag(tag, at) for tag in own["tags"])
        is_once, is_needed = own.get("stop_after_first", False), own.get("at_least_one", False)
        if is_once and is_needed:
            return first

        def after(trigger: str) -> Callable[[int], Ends]:
            tags = [tag for tag in own["tags"] if tag["begin"].startswith(trigger)]
            return lambda stop: self.union(self.tag(tag, stop - len(trigger)) for tag in tags)

        excludes = [*own.get("excludes", []), *_texts(around)]
        rules = [(trigger, after(trigger)) for trigger in own["triggers"]]
        starts = first if is_needed else [at]
        return self.union(self.dispatch(s, rules, excludes, not is_once) for s in starts)

    def own_dispatch(self, own: Format, at: int, around: Around) -> Ends:
        def after(inner: Format) -> Callable[[int], Ends]:
            return lambda start: self.ends(inner, start, around)

        rules = [(text, after(inner)) for text, inner in own["rules"]]
        return self.dispatch(at, rules, own.get("excludes", []), own.get("loop", True))

    def dispatch(
        self, at: int, rules: list[tuple[str, Callable[[int], Ends]]], bans: list[str], loop: bool
    ) -> Ends:
        found: set[int] = set()
        seen, waiting = set(), [at]
        while waiting:
            start = waiting.pop()
            if start in seen:
                continue
            seen.add(start)
            for end in range(start, len(self.text) + 1):
                read = self.text[start:end]
                if any(read.endswith(ban) for ban in bans) or ord(read[-1:] or " ") >= CONTROL:
                    break
                met = [rule for rule in rules if read.endswith(rule[0])]
                if met:
                    after = max(met, key=lambda rule: len(rule[0]))[1](end)
                    found |= set() if loop else after
                    waiting += after if loop else []
                    break
                found.add(end)
        return frozenset(found)

    def separated(self, own: Format, at: int) -> Ends:
        def tags(start: int) -> Ends:
            return self.union(self.tag(tag, start) for tag in own["tags"])

        found = new = tags(at)
        while new and not own.get("stop_after_first"):
            starts = self.union(self.literal(own["separator"], end) for end in new)
            new = self.union(map(tags, starts)) - found
            found |= new
        return found if own.get("at_least_one") else found | {at}

    # --- tokens -------------------------------------------------------------------------------------

    def token(self, at: int, wanted: set[int]) -> Ends:
        found, end = self.starts.get(at, (None, 0))
        return frozenset({end} if found in wanted else ())

    def allowed(self, own: Format, around: Around, *others: int) -> set[int]:
        banned = {*own.get("exclude_tokens", []), *others, END}
        banned |= {end["token"] for end in around if isinstance(end, dict)}
        return {token for token, _ in self.starts.values()} - banned

    def any_tokens(self, own: Format, at: int, around: Around) -> Ends:
        found = new = frozenset({at})
        allowed = self.allowed(own, around)
        for _ in range(min(len(self.starts), own.get("max_tokens", len(self.starts)))):
            new = self.union(self.token(start, allowed) for start in new)
            found |= new
        return found

    def token_triggered(self, own: Format, at: int, around: Around) -> Ends:
        def first(start: int) -> Ends:
            return self.union(self.tag(tag, start) for tag in own["tags"])

        is_once, is_needed = own.get("stop_after_first", False), own.get("at_least_one", False)
        if is_once and is_needed:
            return first(at)
        allowed = self.allowed(own, around, *own["trigger_tokens"])
        starts = first(at) if is_needed else frozenset({at})
        return self.among(starts, allowed, first, not is_once)

    def token_dispatch(self, own: Format, at: int, around: Around) -> Ends:
        def hit(start: int) -> Ends:
            return self.union(
                self.ends(inner, stop, around)
                for named, inner in own["rules"]
                for stop in self.token(start, {named})
            )

        allowed = self.allowed(own, around, *(named for named, _ in own["rules"]))
        return self.among(frozenset({at}), allowed, hit, own.get("loop", True))

    def among(
        self, starts: Ends, allowed: set[int], hit: Callable[[int], Ends], loop: bool
    ) -> Ends:
        """Any of these tokens, and what is hit between them."""
        found, over = set(starts), set[int]()
        waiting = list(starts)
        while waiting:
            start = waiting.pop()
            after = hit(start)
            over |= after
            new = (self.token(start, allowed) | (after if loop else frozenset())) - found
            found |= new
            waiting += new
        return frozenset(found | over)


def _texts(around: Around) -> list[str]:
    return [end for end in around if isinstance(end, str) and end]
