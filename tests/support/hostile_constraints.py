"""Constraints that broke other servers. Each must be refused, or be harmless, within seconds."""

import json
from collections.abc import Iterable

from segue.types import Constraint, ConstraintKind, Trigger


def _nested(depth: int, inner: str = '{"type": "string"}') -> str:
    return '{"type": "object", "properties": {"a": ' * depth + inner + "}}" * depth


def _all(kind: ConstraintKind, *values: str) -> list[Constraint]:
    return [Constraint(kind=kind, value=value, param="it") for value in values]


def _deep(name: str) -> str:
    return f'(((({name} "x")* | "y") "z")+ | "w")? "f"'


def _lazy(value: str, *patterns: str, kind: ConstraintKind = "gbnf") -> list[Constraint]:
    """A lazy grammar for each pattern."""
    return [_watched(value, each, kind=kind) for each in patterns]


def _watched(value: str, *patterns: str, kind: ConstraintKind = "gbnf") -> Constraint:
    """A lazy grammar with all these patterns."""
    triggers = tuple(Trigger("pattern", each, 0, "it") for each in patterns)
    return Constraint(kind=kind, value=value, param="it", triggers=triggers)


def _any_of(texts: Iterable[str]) -> str:
    return " | ".join(texts)


def _literals(num: int, end: str = "") -> str:
    """So many texts of which each begins otherwise."""
    return _any_of(f'"{chr(0x4E00 + i)}{end}"' for i in range(num))


_BAD_PATTERNS = ("[", "(?<=x)y", "\\\\p{Bogus}", "(?P<a", "(" * 400)
_QUOTES = ('"', '"')
_CHAIN = range(5000)

REFUSED: list[Constraint] = [
    *_all(
        "json_schema",
        *('{"type": "nope"}', '{"type": ["object", 7]}', '{"$ref": "#/x"}', "false", "[]", '"str"'),
        *("7", "null", "", "{", '{"type": "string"} x', '{"properties": []}', '{"enum": []}'),
        *(f'{{"pattern": "{pattern}"}}' for pattern in _BAD_PATTERNS),
        *(_nested(3, f'{{"type": "string", "pattern": "{p}"}}') for p in _BAD_PATTERNS),
        *('{"$ref": "http://example.com/x"}', '{"$ref": "file:///etc/passwd"}', '{"$ref": 7}'),
        '{"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}',
        '{"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}',
        '{"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}',
        '{"type": "array", "items": {"$ref": "#"}, "minItems": 1}',
        *('{"typ": "string"}', '{"type": "string", "maxLen": 3}', '{"not": {"typ": "string"}}'),
        *('{"type": "array", "uniqueItems": true}', '{"type": "string", "format": "bogus"}'),
        *(_nested(60), _nested(1000), _nested(50_000), "[" * 100_000),
        json.dumps(
            {"$ref": "#/$defs/0", "$defs": {i: {"$ref": f"#/$defs/{i + 1}"} for i in _CHAIN}}
        ),
        json.dumps({"type": "object", "properties": {f"p{i}": {} for i in range(5000)}}),
        json.dumps({"enum": ["x" * 1000] * 1000}),
        '{"type": "string", "minLength": 5, "maxLength": 3}',
        '{"type": "integer", "minimum": 5, "maximum": 3}',
        '{"x-guidance": 7}',
        json.dumps({"anyOf": [{"type": "object"}, *[False] * 30], "unevaluatedProperties": False}),
    ),
    *_all("regex", "[", "foo(", "(?<=x)*", "\\p{Bogus}", "(?P<a", "a{99999999}", "\\1", ""),
    *_all("regex", "a(?=b)", "\\bword", "x\\", "(" * 50_000 + "a" + ")" * 50_000, "a" * 20_000),
    *_all("regex", "(a{9999}){9999}"),
    *_all("gbnf", "root ::= root", "root ::= a\na ::= root", 'root ::= "" root', 'root::="'),
    *_all("gbnf", "root ::= [", 'root ::= "\\x', "root ::= a{", 'root ::= "a\0b"', "", " \n"),
    *_all("gbnf", *("root ::= " + "(" * n + '"a"' + ")" * n for n in (1000, 13_000, 30_000))),
    *_all("gbnf", "root ::= " + "(" * 60_000, "root ::= " + "(" * 1_000_000),
    *_all("gbnf", "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in _CHAIN)),
    *_all(
        "gbnf", "root ::= r0\n" + "".join(f"r{i} ::= {_deep(f'r{i + 1}')}\n" for i in range(300))
    ),
    *_all("lark", "start: T0\n" + "".join(f"T{i}: {_deep(f'T{i + 1}')}\n" for i in range(300))),
    *_all("lark", 'start: / "test"', "start: <|nosuch|>", "start: start", "", "start: undefined"),
    *_all("lark", "start: A\nA: /.*a.{20}/ & /.*b.{19}/ & ~/.*c.{18}/", "start: A\nA: A"),
    *_all("lark", "start: r0\n" + "".join(f"r{i}: r{i + 1}\n" for i in _CHAIN) + 'r5000: "a"'),
    *_all("lark", "start: " + "(" * 30_000 + '"a"' + ")" * 30_000),
    *_all("lark", 'start: %json {"typ": "string"}', "start: %json {", 'start: %json {"type": 3}'),
    *_all("llguidance", "", "{", "[]", '{"grammars": []}', '{"grammars": [7]}'),
    *_all("llguidance", '{"grammars": [{"lark_grammar": "start: @x"}]}'),
    *_all("llguidance", '{"grammars": [{"json_schema": {"maxLen": 3}}]}'),
    *_all("structural_tag", "{}", '{"structures": [], "triggers": []}'),
    *_all(
        "structural_tag",
        '{"structures": [{"begin": "<a", "schema": {}, "end": ""}], "triggers": ["b"]}',
    ),
    *_lazy('root ::= [a-z]+ "."', "(a|ab)(c|bcd)" * 150 + "x", "(a?){900}x", "[ab]*a[ab]{14}x"),
    *_lazy(
        'root ::= [a-z]+ "."',
        "((?=[ab]*a[ab]{12}x)[ab])*y",
        "",
        "(",
        r"(a)\1",
        "(?<=a)b",
        "a" * 5000,
    ),
    *_lazy('root ::= p "."\np ::= "(" p* ")"', r"(\(+x?)\."),
    *_lazy('root ::= (x | y)* "."\nx ::= "a" x? "b"?\ny ::= "a" y? "c"?', "(a+)c"),
    *_lazy(
        "root ::= r0\n"
        + "".join(f'r{i} ::= "" r{i + 1} ""\n' for i in range(900))
        + 'r900 ::= "ab"',
        "ab",
    ),
    # Each took a minute and more, or gigabytes.
    *_lazy(
        'root ::= [a-z]+ "."',
        f"(?:{'|'.join(f'w{i:02}<.begin.>v{i:02}' for i in range(60))})(x)",
        "(a?)" * 480 + "x",
    ),
    _watched('root ::= [a-z]+ "."', *("(a?)" * 480 + c for c in "bcdefghijk")),
    *_lazy(f'root ::= [ab]{{0,500}} ({_literals(9000)}) "."', "([ab]+[^x]+)x"),
    *_lazy(f'root ::= [ab]{{0,500}} ({_literals(9000, "x")}) "."', "([ab]+)x"),
    *_lazy(
        f'root ::= p "."\np ::= "(" p ({_any_of(f"{i}y".join(_QUOTES) for i in range(5000))}) | "x"',
        r"(\({1,400}x)!",
    ),
    *_lazy(
        json.dumps({"enum": [f"{i:b}".replace("0", "a") + "b" * 20 for i in range(3000)]}),
        '("[1ab]+)x',
        kind="json_schema",
    ),
    *_lazy(
        json.dumps(
            {"anyOf": [{"pattern": f"^a.{{{i}}}b.{{{i}}}$", "type": "string"} for i in range(14)]}
        ),
        '("[ab]+)x',
        kind="json_schema",
    ),
    *_lazy(
        json.dumps({"type": "object", "properties": {f"p{i}": {} for i in range(190)}}),
        r'(\{"[p0-9]+)x',
        kind="json_schema",
    ),
    *_all(
        "gbnf",
        "root ::= " + _any_of(f"!<[{i}]>" for i in range(238)),
        "root ::= " + _any_of(f"!<[{i}]> <[{i + 1}]>" for i in range(238)),
    ),
    Constraint(kind="choice", value=(), param="it"),
    Constraint(kind="choice", value=("",), param="it"),
    Constraint(kind="choice", value="text", param="it"),
    Constraint(kind="choice", value=("x",) * 20_000, param="it"),
    Constraint(kind="regex", value=("a", "b"), param="it"),
]

# Legitimate, and known to have been refused or to have hung elsewhere.
HARMLESS: list[Constraint] = [
    *_all("regex", "(a+)+b", "(a?){50}a{50}", "([a-z]{1,1000}){1,1000}", "(.*){64}", "foo**"),
    *_all("regex", "(.*a){30}.{20}", ".*a.{200}", "(a*)*" * 2000),
    *_all("gbnf", "root ::= root?", 'root ::= root root | "a"', 'root ::= a a\na ::= ("x"?)*'),
    *_all(
        "gbnf",
        "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(900)) + 'r900 ::= "a"',
    ),
    *_all("gbnf", "root ::= " + "(" * 100 + '"a"' + ")" * 100),
    *_lazy(
        'root ::= [a-z]+ "."', "(a*)*" * 200 + "x", "((?=[ab]{20}x)[ab])*y", "((?!ab{9})[ab])*y"
    ),
    *_lazy("root ::= .+", ".$", "(a|b|c)$", "(a|a|a)+b"),
    *_all(
        "json_schema",
        *(f'{{"type": "string", "maxLength": {n}}}' for n in (1999, 2000, 100_000)),
        _nested(3, '{"type": "string", "maxLength": 2000}'),
        _nested(3, '{"type": "string", "pattern": "b[a-z]{2,}"}'),
        *('{"type": "string", "pattern": "^+[a-z]$"}', '{"type": "string", "pattern": "^{2}x$"}'),
        *(json.dumps({"pattern": p}) for p in ("(^|)" * 60 + "a", "a" + "(|$)" * 2000, "^" * 5000)),
        json.dumps({"pattern": f"({'|'.join(['^a'] * 3000)})({'|'.join(['b$'] * 3000)})"}),
        '{"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#/prefixItems/0"}]}',
        '{"type": "object", "properties": {"child": {"$ref": "#"}}}',
        '{"type": "array", "items": {"type": "string"}, "maxItems": 100000000}',
        *("{}", "true", _nested(45)),
        json.dumps({"enum": [f"value {i}" for i in range(10_000)]}),
        json.dumps({"oneOf": [{"const": i, "title": "t"} for i in range(1500)]}),
        json.dumps({"type": "object", "properties": {f"p{i}": {} for i in range(450)}}),
    ),
    *_all("lark", "start: A\nA: /(a|b)*a(a|b){20}/ & /(a|b)*b(a|b){19}/", "start: s\ns: s s | /a/"),
]
