"""What a schema allows and nothing else, text by text."""

from random import Random

import pytest

from segue.bench.exactness.trial import Findings, is_whole, try_grammar, try_regex, try_schema
from segue.engine.constraints.compiler import Compiler
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
BIG = 1234567890123456789
OBJECT = '{"type": "object", '

Case = tuple[str, list[str], list[str]]  # a schema, texts that fit it, texts that do not


def verdicts(schema: str, texts: list[str]) -> list[bool]:
    grammar = COMPILER.compile(Constraint(kind="json_schema", value=schema, param="it"))
    return [is_whole(grammar, text) for text in texts]


def reason(schema: str) -> str:
    with pytest.raises(InvalidField) as refused:
        COMPILER.compile(Constraint(kind="json_schema", value=schema, param="it"))
    return refused.value.message


NUMBERS: list[Case] = [
    (
        f'{{"const": {{"id": {BIG}}}}}',
        [f'{{"id":{BIG}}}'],
        [f'{{"id":{BIG - 21}}}', f'{{"id":{BIG}.0}}'],
    ),
    (f'{{"type": "number", "enum": [{BIG}, 1]}}', [str(BIG), "1.0"], [f"{BIG}.0"]),
    ('{"type": "array", "const": [1, 2.5]}', ["[1,2.5]"], ["[1.0,2.5]"]),
    (f'{{"enum": [{BIG}, 1]}}', [str(BIG), "1"], [str(BIG + 1)]),
    (f'{{"type": "integer", "minimum": {BIG}}}', [str(BIG), f"{BIG}0"], [str(BIG - 1)]),
    (f'{{"type": "integer", "maximum": -{BIG}}}', [f"-{BIG}"], [f"-{BIG - 1}", "0"]),
    ('{"exclusiveMinimum": 0, "maximum": 0.5}', ["0.1", "0.50", "0.001"], ["0", "0.0", "0.51"]),
    ('{"exclusiveMinimum": 3, "exclusiveMaximum": 3.5}', ["3.01", "3.4"], ["3", "3.0", "3.5"]),
    ('{"minimum": -0.5, "exclusiveMaximum": 0}', ["-0.5", "-0.01"], ["-0", "0", "-0.0", "-0.51"]),
    ('{"minimum": 5e-324, "maximum": 1}', ["0.5", "1"], ["0", "1.1"]),
    ('{"type": "number", "const": 1}', ["1", "1.0"], ["1.1", "10"]),
    ('{"type": "integer", "const": 1}', ["1"], ["1.0"]),
    ('{"type": "integer", "multipleOf": 7, "exclusiveMinimum": 7}', ["14", "70"], ["7", "15"]),
    ('{"multipleOf": 0.25}', ["0.5", "0.75", "-3"], ["0.3"]),
    ('{"type": "number", "not": {"type": "integer"}}', ["1.5"], ["1", "1.0"]),
    ('{"type": "number", "format": "int32"}', ["2147483647"], ["2147483648", "1.5"]),
]
OBJECTS: list[Case] = [
    (
        OBJECT + '"properties": {"a": {"type": "integer"}}}',
        ['{"a":1}', '{"b":1.5}'],
        [r'{"\u0061":1.5}', '{"a":1.5}'],
    ),
    (
        OBJECT + '"properties": {"a": {"type": "integer"}}, "required": ["a"]}',
        ['{"a":1}', '{"a":1,"\\n":2}'],
        [r'{"a":1,"\u0061":"x"}', '{"a":1,"a":"x"}', r'{"a":1,"\u000a":2}'],
    ),
    (
        OBJECT + '"patternProperties": {"^a": {"type": "null"}, "z$": {"const": null}}}',
        ['{"ab":null,"z":null,"az":null,"q":1}'],
        ['{"az":1}', r'{"\u0061":1}'],
    ),
    (
        '{"minProperties": 3, "maxProperties": 1, "propertyNames": {"pattern": "a"}}',
        ["1", "[]"],
        ["{}", '{"a":1}', '{"a":1,"ab":2,"aa":3}'],
    ),
    (OBJECT + '"minProperties": 1}', ['{"":1}', '{"a":1,"b":2}'], ["{}"]),
    (
        OBJECT + '"properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2,'
        ' "maxProperties": 2, "additionalProperties": false}',
        ['{"a":1,"b":2}', '{"b":1,"c":2}'],
        ["{}", '{"a":1}', '{"a":1,"b":2,"c":3}', '{"a":1,"a":1}'],
    ),
    (
        OBJECT + '"dependentRequired": {"a": ["b"]}}',
        ["{}", '{"b":1}', '{"a":1,"b":1}'],
        ['{"a":1}', '{"a":1,"c":1}'],
    ),
    (
        OBJECT + '"if": {"properties": {"k": {"const": 1}}, "required": ["k"]},'
        ' "then": {"required": ["x"]}, "else": {"required": ["y"]}}',
        ['{"k":1,"x":0}', '{"k":2,"y":0}', '{"y":0}'],
        ['{"k":1,"y":0}', '{"k":2,"x":0}'],
    ),
    (
        OBJECT + '"propertyNames": {"pattern": "^[a-c]+$", "maxLength": 2}}',
        ['{"ab":1,"c":2}'],
        ['{"abc":1}', '{"d":1}'],
    ),
    (
        OBJECT + '"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}},'
        ' "unevaluatedProperties": false}',
        ['{"a":1,"b":1}', "{}"],
        ['{"c":1}'],
    ),
    (OBJECT + '"unevaluatedProperties": true}', ['{"c":1}'], ["1"]),
    (
        '{"oneOf": [' + OBJECT + '"required": ["a"]}, ' + OBJECT + '"required": ["b"]}]}',
        ['{"a":1}', '{"b":1,"c":2}'],
        ['{"a":1,"b":1}', "{}"],
    ),
    ('{"not": {"const": {"a": 1}}}', ['{"a":2}', '{"a":1,"b":1}', "{}", "1"], ['{"a":1}']),
]


def tagged(*kinds: str) -> str:
    """One of several objects with a property k, each with a schema of its own for it."""
    options = (OBJECT + f'"properties": {{"k": {kind}}}, "required": ["k"]}}' for kind in kinds)
    return f'"oneOf": [{", ".join(options)}]'


OLD = '{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"const": 1}}, '
OTHERS: list[Case] = [
    ('{"oneOf": [{"const": 1}, {"enum": [1, 2]}, {"const": "a"}]}', ["2", '"a"'], ["1", "3"]),
    ('{"oneOf": [{"const": 1}, {"enum": [3, 2]}, {"const": "a"}]}', ["1", "3"], ["4"]),
    (
        "{" + tagged('{"const": 1}', '{"enum": [2, 3]}') + "}",
        ['{"k":1}', '{"k":3}'],
        ['{"k":4}', "1"],
    ),
    ("{" + tagged('{"const": 1}', '{"type": "integer"}') + "}", ['{"k":2}'], ['{"k":1}']),
    (
        OLD + tagged('{"$ref": "#/definitions/a", "const": 2}', '{"enum": [1, 5]}') + "}",
        ['{"k":5}'],
        ['{"k":1}', '{"k":2}'],
    ),
    (
        '{"oneOf": [{"required": ["k"], "properties": {"k": {"const": 1}}}, {"properties": {"k": {"const": 2}}}]}',
        ['{"k":1}', '{"k":2}'],
        ["1", '{"k":3}'],
    ),
    ('{"prefixItems": [{"const": 1}], "items": false}', ["[1]", "[]"], ["[1,2]"]),
    (
        '{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}],'
        ' "additionalItems": false}',
        ["[1]"],
        ["[1,2]"],
    ),
    ('{"type": "integer", "nullable": true, "minimum": 3}', ["3", "null"], ["2", '"a"']),
    ('{"type": ["boolean"], "nullable": false}', ["true"], ["null"]),
    ('{"type": "string", "nullable": true, "enum": ["a"]}', ['"a"'], ["null"]),
    ('{"not": {"type": "string", "nullable": true}, "maximum": 9}', ["1", "true"], ["null", '"a"']),
    ('{"type": "array", "maxItems": 2.0, "uniqueItems": false}', ["[1,1]"], ["[1,1,1]"]),
    (
        '{"type": "array", "uniqueItems": true, "minItems": 1, "items": {"enum": ["a", 1, null]}}',
        ['["a"]', '[1,"a"]', '["a",null,1]'],
        ["[]", '["a","a"]', "[1,null,1]", '["b"]'],
    ),
    (
        '{"type": "array", "uniqueItems": true, "maxItems": 2, "items": {"type": ["boolean", "null"]}}',
        ["[]", "[true,false]", "[null]"],
        ["[true,true]", "[true,false,null]"],
    ),
    (
        '{"type": "array", "uniqueItems": true, "minItems": 2, "prefixItems": [{"const": 1}],'
        ' "items": {"enum": [1, 2, {"a": 1}]}}',
        ["[1,2]", '[1,{"a":1},2]'],
        ["[1]", "[1,1]", "[2,1]", "[1,2,2]"],
    ),
    (
        '{"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "discriminator": {"propertyName": "kind",'
        ' "mapping": {"cat": "#/$defs/cat", "dog": "#/$defs/dog"}}, "$defs": {"cat": {"properties":'
        ' {"kind": {"const": "cat"}}, "required": ["kind"]}, "dog": {"properties": {"kind":'
        ' {"const": "dog"}}, "required": ["kind"]}}}',
        ['{"kind":"cat"}', '{"kind":"dog"}'],
        ['{"kind":"cow"}', "{}"],
    ),
    (
        '{"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}, "minContains": 2,'
        ' "maxContains": 2}',
        ["[5,1,6]", "[7,8]"],
        ["[5]", "[5,6,7]"],
    ),
    ('{"oneOf": [{"type": "integer"}, {"minimum": 2}]}', ["1", "2.5", '"x"'], ["2", "1.5"]),
    ('{"type": "string", "not": {"enum": ["a", "b"]}}', ['"c"', '""'], ['"a"', '"b"', "1"]),
    ('{"$ref": "#foo", "$defs": {"z": {"$anchor": "foo", "type": "null"}}}', ["null"], ["1"]),
    ('{"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object",'
     ' "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}}}', ["null"], ['{"a":null}']),
    ('{"type": "string", "pattern": "^(?=.*[0-9])(?!a)[a-z0-9]+$"}', ['"b1"'], ['"a1"', '"bc"']),
    ('{"type": "string", "pattern": "^a|b$"}', ['"ac"', '"cb"'], ['"ca"', '"bc"']),
    ('{"type": "string", "pattern": "(^a|b)(c|d$)"}', ['"ace"', '"ebd"'], ['"eac"', '"bde"']),
    ('{"type": "string", "pattern": "(^|,)x(,|$)"}', ['"x"', '"a,x,b"'], ['"ax"', '"x b"']),
    ('{"type": "string", "pattern": "a{1{}"}', ['"ba{1{}"'], ['"a"']),
    ('{"type": "string", "maxLength": 9007199254740991}', ['""', '"ab"'], ["1"]),
    ('{"type": "object", "maxProperties": 4294967296}', ["{}", '{"a":1}'], ["1"]),
    ('{"format": "ipv6"}', ['"::ffff:1.2.3.4"', "1"], ['"1::2::3"', '"12345::"']),
    ('{"format": "email"}', [r'"\"joe x\"@a.b"', '"a@[1.2.3.4]"'], ['"a@"', '".a@b"']),
    ('{"format": "date"}', ['"2024-02-29"'], ['"2023-02-29"', '"2024-2-29"']),
    ('{"format": "time"}', ['"23:59:60Z"', '"22:59:60-01:00"'], ['"22:59:60Z"', '"10:00:00"']),
]  # fmt: skip


LONG = "9" * 16
SHORT: list[Case] = [
    ('{"type": "integer"}', ["0", LONG, f"-{LONG}"], [f"1{LONG}", f"-1{LONG}", "1e5"]),
    ('{"type": "integer", "minimum": 5}', ["5", LONG], ["4", f"1{LONG}"]),
    ('{"type": "integer", "maximum": 5}', ["5", f"-{LONG}"], ["6", f"-1{LONG}"]),
    (f'{{"type": "integer", "minimum": 0, "maximum": {BIG}}}', [str(BIG)], [str(BIG + 1)]),
    (f'{{"type": "integer", "minimum": {BIG}}}', [str(BIG)], [str(BIG - 1), f"{BIG}0"]),
    ('{"type": "integer", "multipleOf": 7}', ["7" * 16, "14"], ["7" * 17, "8"]),
    ('{"type": "integer", "multipleOf": 5}', ["5" * 16], ["5" * 17, "7"]),
    (
        '{"type": "number"}',
        [LONG, f"{LONG}.{LONG}", f"-1e-{LONG}", "1E+0"],
        [f"1{LONG}", f"0.1{LONG}", f"1e1{LONG}", "1e05"],
    ),
    ('{"type": "number", "minimum": 0}', [f"{LONG}.{LONG}"], [f"1{LONG}", f"0.1{LONG}", "-1"]),
    (f'{{"type": "number", "maximum": 0.1{LONG}}}', [f"0.1{LONG}"], [f"0.1{LONG}1", f"-1{LONG}"]),
    (f'{{"const": 1{LONG}}}', [f"1{LONG}"], [LONG]),
    ("{}", [LONG, f'["{LONG}1"]'], [f"1{LONG}", f"[1{LONG}]"]),
]


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case[0][:60])
def test_numbers_without_bounds_may_be_kept_to_few_digits(case: Case) -> None:
    schema, good, bad = case
    short = Constraint(kind="json_schema", value=schema, max_digits=16)
    grammar = COMPILER.compile(short)
    assert [text for text in good + bad if is_whole(grammar, text)] == good


def test_so_may_those_of_json_mode() -> None:
    grammar = COMPILER.compile(Constraint(kind="json_object", max_digits=16))
    assert is_whole(grammar, f'{{"a":{LONG}}}')
    assert not is_whole(grammar, f'{{"a":1{LONG}}}')


@pytest.mark.parametrize("case", NUMBERS + OBJECTS + OTHERS, ids=lambda case: case[0][:60])
def test_texts_that_fit_are_accepted_and_no_others(case: Case) -> None:
    schema, fitting, others = case
    assert verdicts(schema, fitting) == [True] * len(fitting)
    assert verdicts(schema, others) == [False] * len(others)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{"allOf": [true, false]}', "at #/allOf/1: false"),
        ('{"type": []}', "type is an empty list"),
        ('{"anyOf": []}', "anyOf is an empty list"),
        ('{"$ref": "#"}', "requires itself"),
        ('{"type": "object", "minProperties": 2}', "the same name may come twice"),
        ('{"prefixItems": [{}], "additionalItems": false}', "after prefixItems write items"),
        ('{"type": "array", "uniqueItems": true}', "uniqueItems cannot be enforced"),
        (
            f'{{"uniqueItems": true, "items": {{"enum": {list(range(11))}}}}}',
            "items of a short list",
        ),
        (
            f'{{"uniqueItems": true, "items": {{"enum": {list(range(9999))}}}}}',
            "items of a short list",
        ),
        ('{"format": "bogus"}', "the format 'bogus' cannot be enforced"),
        (
            '{"$ref": "#/$comment", "$comment": {"maxLen": 3}}',
            "at #/$comment: the keyword 'maxLen'",
        ),
        ('{"nullable": 1, "type": "string"}', "nullable must be true or false"),
        ('{"nullable": true, "$ref": "#/$defs/a", "$defs": {"a": {}}}', "beside type alone"),
        ('{"minimum": 1e999}', "out of range"),
        ('{"multipleOf": 0.123456789}', "multiples of 0.123456789 cannot be enforced"),
        (f'{{"multipleOf": 1{"0" * 400}}}', "multiples of 10000000000000000000… cannot"),
        ('{"const": 1, "type": true}', "type must be a name or a list of names"),
        ('{"contains": {}, "minContains": 1e300}', "contains counts too many items"),
        (
            '{"contains": {"type": "integer"}, "maxContains": 5000}',
            "contains counts too many items",
        ),
        ('{"pattern": "a(?<=b)"}', "column 2: this kind of group is not supported"),
        ('{"pattern": "a{2}{3}"}', "column 5: { has nothing to repeat"),
        ('{"pattern": "a|{2}"}', "column 3: { has nothing to repeat"),
        ('{"items": {"$ref": "#/anyOf/0000000001"}, "anyOf": [{}]}', "points at nothing"),
        ('{"$id": "http://a/", "items": {"$id": "http://[b"}}', "'http://[b' is no address"),
        (OBJECT + '"properties": {"a": {"$ref": "#"}}, "required": ["a"]}', "fits the schema"),
        (
            OBJECT + '"properties": {"a": {"type": "null", "const": 1}}, "required": ["a"]}',
            "nothing fits #/properties/a",
        ),
        ('{"items": {"type": "int"}}', "at #/items: there is no type 'int'; types are null,"),
        ('{"propertys": {}}', "the keyword 'propertys' cannot be enforced; is properties meant?"),
        ('{"require": ["a"]}', "is required meant?"),
        ('{"format": "bogus"}', 'put "x-guidance": {"lenient": true} at the top'),
        (
            '{"items": {"properties": {"age": {}}, "required": ["agee"], "additionalProperties": false, '
            '"type": "object"}, "minItems": 1, "type": "array"}',
            "at #/items: required names 'agee', which is not among the properties",
        ),
    ],
)
def test_what_is_refused_has_its_own_reason(schema: str, why: str) -> None:
    message = reason(schema)
    assert why in message
    assert len(message) < 300


def test_alternatives_that_can_never_be_finished_are_left_out() -> None:
    grammar = COMPILER.compile(
        Constraint(kind="gbnf", value='root ::= "a" | "b" "a" x\nx ::= x "c"')
    )
    assert is_whole(grammar, "a")
    assert grammar.matcher.deep_copy().validate_tokens(list(b"b")) == 0


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_random_constraints_are_judged_alike(seed: int) -> None:
    """By the jsonschema package, by re and by a recogniser, which know nothing of this compiler."""
    schemas, regexes, grammars = Findings(), Findings(), Findings()
    for trial in range(seed, seed + 10):
        try_schema(Random(trial), COMPILER, schemas)
        try_regex(Random(trial), COMPILER, regexes)
        try_grammar(Random(trial), COMPILER, grammars)
    assert schemas.wrong + regexes.wrong + grammars.wrong == []
    assert schemas.compiled > 0 < schemas.drawn
    assert grammars.compiled > 0 < grammars.drawn
