"""A matcher of structural tags that knows nothing of grammars: where may a format end, if it begins here?"""

import re
from collections.abc import Callable
from typing import Any

Format = dict[str, Any]
Ends = frozenset[int]

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


def accepts(whole: Format, text: str) -> bool:
    return len(text) in _Matcher(text).ends(whole, 0, ())


class _Matcher:
    def __init__(self, text: str) -> None:
        self.text = text

    def ends(self, own: Format, at: int, around: tuple[str, ...]) -> Ends:
        kinds: dict[str, Callable[[Format, int, tuple[str, ...]], Ends]] = {
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

    def any_text(self, own: Format, at: int, around: tuple[str, ...]) -> Ends:
        banned = [*own.get("excludes", []), *filter(None, around)]
        most = own.get("max_chars", len(self.text))
        return frozenset(
            end
            for end in range(at, min(len(self.text), at + most) + 1)
            if not any(b in self.text[at:end] for b in banned)
        )

    def sequence(self, own: Format, at: int, around: tuple[str, ...]) -> Ends:
        found: Ends = frozenset({at})
        for element in own["elements"]:
            found = self.union(self.ends(element, start, around) for start in found)
        return found

    def times(self, own: Format, at: int, around: tuple[str, ...], least: int, most: int) -> Ends:
        found: Ends = frozenset({at})
        for _ in range(least):
            found = self.union(self.ends(own, start, around) for start in found)
        new, num = found, least
        while new and num != most:
            new = self.union(self.ends(own, start, around) for start in new) - found
            found, num = found | new, num + 1
        return found

    def tag(self, own: Format, at: int) -> Ends:
        ends = (own["end"],) if isinstance(own["end"], str) else tuple(own["end"])
        return self.union(
            self.literal(end, stop)
            for start in self.literal(own["begin"], at)
            for stop in self.ends(own["content"], start, ends)
            for end in ends
        )

    def triggered(self, own: Format, at: int, around: tuple[str, ...]) -> Ends:
        first = self.union(self.tag(tag, at) for tag in own["tags"])
        is_once, is_needed = own.get("stop_after_first", False), own.get("at_least_one", False)
        if is_once and is_needed:
            return first

        def after(trigger: str) -> Callable[[int], Ends]:
            tags = [tag for tag in own["tags"] if tag["begin"].startswith(trigger)]
            return lambda stop: self.union(self.tag(tag, stop - len(trigger)) for tag in tags)

        excludes = [*own.get("excludes", []), *filter(None, around)]
        rules = [(trigger, after(trigger)) for trigger in own["triggers"]]
        starts = first if is_needed else [at]
        return self.union(self.dispatch(s, rules, excludes, not is_once) for s in starts)

    def own_dispatch(self, own: Format, at: int, around: tuple[str, ...]) -> Ends:
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
                if any(read.endswith(ban) for ban in bans):
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
