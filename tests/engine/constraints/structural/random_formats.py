"""Random formats of a few letters, and texts that nearly fit them."""

import random
from typing import Any

from tests.engine.constraints.structural.oracle import CONTROL, NUMBER, PAIR, Format

WORDS = ["a", "b", "<", "ab", "<a", ">", "<b>", "ba", "c"]  # none begins as it ends
PATTERNS = {"a+": "aa", "[ab]*": "ab", "(ab|c)": "c", "a?b": "b", "<[a-c]{1,2}>": "<b>"}
LEAVES = ["const_string", "any_text", "regex", "json_schema"]
INNER = ["sequence", "or", "optional", "star", "plus", "repeat", "dispatch", "tags_with_separator"]
KINDS = [*LEAVES, *INNER, "tag", "tag", "triggered_tags", "triggered_tags"]


class Formats:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def word(self) -> str:
        return self.rng.choice(WORDS)

    def maybe(self) -> bool:
        return self.rng.random() < 0.3

    def some(self, least: int, most: int) -> range:
        return range(self.rng.randint(least, most))

    # --- formats ------------------------------------------------------------------------------------

    def format(self, depth: int) -> Format:
        kind = self.rng.choice(KINDS if depth else LEAVES)
        return {"type": kind} | self._fields(kind, depth - 1)

    def _fields(self, kind: str, depth: int) -> Format:
        match kind:
            case "const_string":
                return {"value": self.word()}
            case "any_text":
                return {"excludes": [self.word() for _ in self.some(0, 1)]}
            case "regex":
                return {"pattern": self.rng.choice(list(PATTERNS))}
            case "json_schema":
                return {"json_schema": self.rng.choice([NUMBER, PAIR])}
            case "sequence" | "or":
                return {"elements": [self.format(depth) for _ in self.some(1, 3)]}
            case "repeat":
                least = self.rng.randint(0, 2)
                most = self.rng.choice([-1, least, least + 1])
                return {"min": least, "max": most, "content": self.format(depth)}
            case "tag":
                return self._tag(depth)
            case "dispatch":
                words = {self.word() for _ in range(2)}
                rules = [[word, self.format(depth)] for word in sorted(words)]
                return {"rules": rules, "loop": self.maybe()}
            case "triggered_tags":
                return self._triggered(depth)
            case "tags_with_separator":
                tags = [self._tag(depth) for _ in self.some(1, 2)]
                return {"tags": tags, "separator": self.word(), "at_least_one": self.maybe()}
        return {"content": self.format(depth)}

    def _tag(self, depth: int) -> Format:
        end: Any = self.word()
        return {"begin": self.word(), "content": self.format(depth), "end": end}

    def _triggered(self, depth: int) -> Format:
        tags = [self._tag(depth) for _ in self.some(1, 2)]
        triggers: set[str] = {tag["begin"][: self.rng.randint(1, 2)] for tag in tags}
        if any(sum(tag["begin"].startswith(t) for t in triggers) > 1 for tag in tags):
            return self._triggered(depth)
        return {
            "triggers": sorted(triggers),
            "tags": tags,
            "at_least_one": self.maybe(),
            "stop_after_first": self.maybe(),
            "excludes": [self.word()] if self.maybe() else [],
        }

    # --- texts --------------------------------------------------------------------------------------

    def text(self, own: Format) -> str:
        """One that fits more often than not."""
        text = self._near(own)
        if not text or not self.maybe():
            return text
        at = self.rng.randrange(len(text))
        letter: str = self.rng.choice(["", *"ab<>"])
        return text[:at] + letter + text[at + self.rng.randint(0, 1) :]

    def _letters(self) -> str:
        return "".join(self.rng.choice("ab<>c") for _ in self.some(0, 3))

    def _near(self, own: Format) -> str:
        match own.get("type", "tag"):
            case "const_string":
                return str(own["value"])
            case "any_text":
                return self._letters()
            case "regex":
                return PATTERNS[own["pattern"]]
            case "json_schema":
                return "12" if own["json_schema"] == NUMBER else '{"a":1}'
            case "sequence":
                return "".join(map(self._near, own["elements"]))
            case "or":
                return self._near(self.rng.choice(own["elements"]))
            case "tag":
                return str(own["begin"]) + self._near(own["content"]) + str(own["end"])
            case "tags_with_separator":
                tags = [self._near(self.rng.choice(own["tags"])) for _ in self.some(0, 2)]
                return str(own["separator"]).join(tags)
            case "triggered_tags":
                parts = [self._letters() + self._near(self.rng.choice(own["tags"]))]
                return "".join(parts * self.rng.randint(0, 2)) + self._letters()
            case "dispatch":
                word, inner = self.rng.choice(own["rules"])
                return self._letters() + str(word) + self._near(inner) + self._letters()
        return "".join(self._near(own["content"]) for _ in self.some(0, 3))


# --- tokens ---------------------------------------------------------------------------------------

TOKENS = [258, 259, 260]
MERGED = {"ab": 264, "<b>": 265}  # tokens of several characters, beside those of one byte
TOKEN_KINDS = ["token", "exclude_token", "any_tokens", "token_triggered_tags", "token_dispatch"]


class TokenFormats(Formats):
    """Formats of tokens, most of them beside each other: what they could be mixed up with is refused."""

    def format(self, depth: int) -> Format:
        kinds = ["token", "any_tokens", "exclude_token", "const_string", "json_schema"]
        kinds += [*TOKEN_KINDS, "token_tag", "token_tag", "sequence", "or", "star"] if depth else []
        kind = self.rng.choice(kinds)
        if kind == "token_tag":
            return self._token_tag(depth - 1)
        return {"type": kind} | self._fields(kind, depth - 1)

    def _fields(self, kind: str, depth: int) -> Format:
        match kind:
            case "token":
                return {"token": self._token()}
            case "exclude_token":
                return {"exclude_tokens": self._excluded()}
            case "any_tokens":
                most = {"max_tokens": self.rng.randint(0, 2)} if self.maybe() else {}
                return {"exclude_tokens": self._excluded()} | most
            case "token_dispatch":
                rules = [[self._token(), self.format(depth)] for _ in self.some(1, 2)]
                return {"rules": rules, "loop": self.maybe(), "exclude_tokens": self._excluded()}
            case "token_triggered_tags":
                tags = [self._token_tag(depth) for _ in self.some(1, 2)]
                return {
                    "trigger_tokens": [tag["begin"]["token"] for tag in tags],
                    "tags": tags,
                    "exclude_tokens": self._excluded(),
                    "at_least_one": self.maybe(),
                    "stop_after_first": self.maybe(),
                }
        return super()._fields(kind, depth)

    def _token(self) -> int:
        return self.rng.choice(TOKENS)

    def _excluded(self) -> list[int]:
        return [self.rng.choice([*TOKENS, *MERGED.values(), ord("a")]) for _ in self.some(0, 2)]

    def _token_tag(self, depth: int) -> Format:
        begin, end = ({"type": "token", "token": self._token()} for _ in range(2))
        content = self.format(depth) if self.rng.random() < 0.7 else {"type": "any_text"}
        return {"type": "tag", "begin": begin, "content": content, "end": end}

    def _near(self, own: Format) -> str:
        match own.get("type", "tag"):
            case "token":
                return chr(CONTROL + own["token"])
            case "exclude_token":
                return self.rng.choice(["a", "c", "<b>", chr(CONTROL + self._token())])
            case "any_tokens":
                return self._letters()
            case "tag":
                return "".join(self._near(own[part]) for part in ("begin", "content", "end"))
            case "token_triggered_tags":
                parts = [self._letters() + self._near(self.rng.choice(own["tags"]))]
                return "".join(parts * self.rng.randint(0, 2)) + self._letters()
            case "token_dispatch":
                named, inner = self.rng.choice(own["rules"])
                return self._letters() + chr(CONTROL + named) + self._near(inner)
        return super()._near(own)

    def tokens(self, text: str) -> list[tuple[int, str]]:
        """With some of the tokens of several characters."""
        found: list[tuple[int, str]] = []
        at = 0
        while at < len(text):
            merged = [m for m in MERGED if text.startswith(m, at) and self.rng.random() < 0.5]
            piece = merged[0] if merged else text[at]
            code = ord(piece[0])
            token = MERGED[piece] if merged else code - CONTROL if code >= CONTROL else code
            found.append((token, piece))
            at += len(piece)
        return found
