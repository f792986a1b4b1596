"""Random schemas of parameters, texts that nearly fit them, and a reader that knows nothing of grammars."""

import json
import random
import re
from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]

# What stands before the name, after it with what is told of a string and of anything else, and around the value.
STYLES: dict[str, tuple[str, str, str, str]] = {
    "qwen_xml": ("<parameter=", ">", ">", "</parameter>"),
    "minimax_xml": ('<parameter name="', '">', '">', "</parameter>"),
    "deepseek_xml": (
        '<｜DSML｜parameter name="',
        '" string="true">',
        '" string="false">',
        "</｜DSML｜parameter>",
    ),
    "deepseek_v4_1_xml": (
        '<｜DSML｜ parameter name="',
        '" string="true">',
        '" string="false">',
        "</｜DSML｜ parameter>",
    ),
    "glm_xml": (
        "<arg_key>",
        "</arg_key><arg_value>",
        "</arg_key><arg_value>",
        "</arg_value>",
    ),
    "kimi_k3_xml": (
        '<|open|>argument key="',
        '" type="string"<|sep|>',
        '" type="{kind}"<|sep|>',
        "<|close|>argument<|sep|>",
    ),
}
KINDS = {bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
VALUES: list[tuple[Schema | bool, list[Any]]] = [
    ({"type": "string"}, ["", "a b", "<b>", "5", "null", "[1"]),
    ({"type": "string", "pattern": "^[ab]+$"}, ["a", "bab", "c"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc", "a", "</p"]),
    ({"enum": ["x", "yy", 5, None]}, ["x", "yy", 5, None, "5", "z"]),
    ({"type": "integer", "maximum": 20}, [3, -7, 21, "3"]),
    ({"type": ["boolean", "null"]}, [True, None, False, 0]),
    ({"anyOf": [{"type": "string", "minLength": 5}, {"type": "integer"}]}, ["abcde", 12, "abc"]),
    ({"type": "array", "items": {"type": "integer"}}, [[], [1, 2], ["a"], 1]),
    ({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"const": "all"}]}, ["all", ["a"]]),
    ({"anyOf": [{"type": "array", "items": {"type": "null"}}, {"type": "null"}]}, [None, [None]]),
    ({"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}, [{"k": 1}, {}]),
    (True, ["", "b", 5, [1], {"a": None}]),
]
SPACE = r"(?: |\n[ \t]{0,40})?"


class Parameters:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def schema(self) -> Schema:
        names = self.rng.sample(["a", "ab", "b", "name", "n1", "a-b"], self.rng.randint(0, 4))
        own: Schema = {
            "type": "object",
            "properties": {name: self.rng.choice(VALUES)[0] for name in names},
            "required": [name for name in names if self.rng.random() < 0.5],
            "additionalProperties": False,
        }
        if self.rng.random() < 0.4:
            own["additionalProperties"] = self.rng.choice(VALUES)[0]
        return own

    def text(self, style: str, schema: Schema, any_order: bool = False) -> str:
        """One that fits more often than not."""
        wanted = [n for n in schema["properties"] if n in schema["required"] or self._maybe()]
        if self._maybe():
            wanted.append(self.rng.choice(["c", "a", "_x", "9"]))
        if any_order or self.rng.random() < 0.1:
            self.rng.shuffle(wanted)
        text = "".join(self._space() + self._one(style, schema, name) for name in wanted)
        text += self._space()
        if not text or self.rng.random() < 0.6:
            return text
        at = self.rng.randrange(len(text))
        letter: str = self.rng.choice(["", *'a<>" 5'])
        return text[:at] + letter + text[at + self.rng.randint(0, 1) :]

    def _one(self, style: str, schema: Schema, name: str) -> str:
        own = schema["properties"].get(name, schema["additionalProperties"])
        values = next((v for s, v in VALUES if s == own), [1])
        value = self.rng.choice(values if self._maybe() else values[:2])
        return written(style, name, value, self._space() if not isinstance(value, str) else "")

    def _maybe(self) -> bool:
        return self.rng.random() < 0.4

    def _space(self) -> str:
        return self.rng.choice(["", "", "", " ", "\n", "\n  "])


def written(style: str, name: str, value: Any, space: str = "") -> str:
    before, string, other, closes = STYLES[style]
    if isinstance(value, str):
        return f"{before}{name}{string}{value}{closes}"
    return f"{before}{name}{_mark(other, value)}{space}{json.dumps(value)}{space}{closes}"


# --- reading --------------------------------------------------------------------------------------


def accepts(style: str, schema: Schema, text: str, any_order: bool = False) -> bool:
    found = _read(style, text)
    if found is None:
        return False
    names = [name for name, _ in found]
    if any_order:  # then as if they were in order
        order = list(schema["properties"])
        names.sort(key=lambda name: order.index(name) if name in order else len(order))
    listed = [name for name in schema["properties"] if name in names]
    others = names[len(listed) :]
    if names[: len(listed)] != listed or not set(schema["required"]) <= set(listed):
        return False
    if any(name in listed or not re.fullmatch("[A-Za-z_][A-Za-z_0-9]*", name) for name in others):
        return False
    return all(
        any(_fits(schema["properties"].get(name, schema["additionalProperties"]), v) for v in meant)
        for name, meant in found
    )


def _fits(schema: Any, value: Any) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


def _read(style: str, text: str) -> list[tuple[str, list[Any]]] | None:
    """The parameters, each with what its value may mean."""
    before, string, other, closes = STYLES[style]
    marks = [string, *(other.replace("{kind}", kind) for kind in [*KINDS.values(), "null"])]
    marked = "|".join(re.escape(mark).replace("><", f">{SPACE}<") for mark in marks)
    name = f"{SPACE}{re.escape(before)}(?P<name>[\\w-]*)(?P<mark>{marked})"
    pattern = re.compile(f"{name}(?P<value>.*?){re.escape(closes)}", re.DOTALL)
    found: list[tuple[str, list[Any]]] = []
    at = 0
    while (one := pattern.match(text, at)) is not None:
        meant = _meant(one["value"])
        if string != other:  # then it is told what it means
            tell = one["mark"]
            meant = [one["value"]] if tell == string else []
            meant += [
                v for v in _meant(one["value"]) if type(v) is not str and tell == _mark(other, v)
            ]
        found.append((one["name"], meant))
        at = one.end()
    return found if re.fullmatch(SPACE, text[at:]) else None


def _mark(other: str, value: Any) -> str:
    return other.replace("{kind}", KINDS.get(type(value), "null"))


def _meant(text: str) -> list[Any]:
    """A string, with or without the space around it, or what it is as JSON."""
    left, right = re.match(SPACE, text), re.search(f"{SPACE}$", text)
    assert left is not None
    assert right is not None
    bare = {text[i:j] for i in (0, left.end()) for j in (len(text), right.start()) if i <= j}
    found: list[Any] = list(bare)
    for each in bare:
        try:
            value = json.loads(each)
        except ValueError:
            continue
        is_bare = each == each.strip() and not isinstance(value, str)
        found += [value] if is_bare else []
    return found
