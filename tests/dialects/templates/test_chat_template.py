import re
import sys

import pytest

from segue.dialects.templates.chat_template import MAX_SOURCE_CHARS, render
from segue.errors import InvalidField
from tests.dialects.templates.rendered import USER, rendered
from tests.support.fakes import INFO

CHATML = """
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""


def test_a_common_template() -> None:
    assert rendered(CHATML) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n"
        "<|im_start|>user\nHi <b><|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", "<s>Hi <b></s>"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Hi <b>"}]'),
        ("{% for x in range(9) %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}", "012"),
        ("{{ strftime_now('%Y-%m-%d') }}", "1970-01-02"),
        ("{% if tools %}x{% else %}y{% endif %}", "y"),
        ("{% set ns = namespace(a=1) %}{% set ns.a = ns.a * 2 %}{{ ns.a }}{{ 7 % 2 }}", "21"),
        ("{{ messages[0]['content'].strip().split(' ')[1] }}", "<b>"),
        ("  {% if true %}\nx\n  {% endif %}\n", "x\n"),
        ("{{ [1] + [2] }}{{ 1 + 1.5 }}{{ 'a' + 'b' ~ 1 ~ [2] }}", "[1, 2]2.5ab1[2]"),
        ("{{ 'aa' | replace('a', 'b', 1) }}{{ 'aa'.replace('a', 'c') }}", "bacc"),
        ("{{ ['a', 'b'] | map('upper') | join(', ') }}{{ '-'.join(['a', 'b']) }}", "A, Ba-b"),
        ("{{ messages | join('-', 'role') }}{{ [1, [2]] | join }}", "user1[2]"),
        ("{{ messages | selectattr('role') | map(attribute='role') | first }}", "user"),
        ("{% if messages | rejectattr('role') %}a piece may come{% endif %}", "a piece may come"),
        (
            "{{ [1, 2] | sum }}{{ [{'a': 2}] | sum('a', 3) }}{{ [[1], [2]] | sum(start=[]) }}",
            "35[1, 2]",
        ),
        ("{{ 1.25 | round(1) }}{{ 1.21 | round(1, 'ceil') }}{{ 15 | round(-1) }}", "1.21.320"),
        ("{{ ' a ' | trim }}{{ 'xax' | trim('x') }}{{ ' a\\nb c'.split() }}", "aa['a', 'b', 'c']"),
        ("{% for a, b in {'x': (1, [2])}.items() %}{{ a }}{{ b }}{% endfor %}", "x(1, [2])"),
        ("{% set a, b = 1, 2 %}{{ a }}{{ b }}{{ 7 // 2 }}{{ 7 / 2 }}{{ 7 - 2 }}", "1233.55"),
        (
            "{% macro m(obj) %}{{ obj }}!{% endmacro %}{{ m(obj=1) ~ m([2]) }}{{ none }}",
            "1![2]!None",
        ),
        ("{{ '<{}>{{'.format('a') }}{{ '{1}{0}{n}'.format(1, none, n='c') }}", "<a>{None1c"),
        (
            "{{ ('a\nb\n\nc' | indent) ~ ('a\nb' | indent('--', first=true)) }}",
            "a\n    b\n\n    c--a\n--b",
        ),
        ("{% for m in 'ab' %}{% generation %}{{ m }}{% endgeneration %}{% endfor %}", "ab"),
        (
            "{{ '-' * 3 }}{{ 2 * 'ab' }}{{ [1] * 2 }}{{ 'a' * -1 }}{{ 'ab' * false }}",
            "---abab[1, 1]",
        ),
        (
            "{{ '%s: %d%%' % ('a', 7) }}{{ '%02d|%-3s|' % (7, 'b') }}{{ '%.2f' % 1.5 }}",
            "a: 7%07|b  |1.50",
        ),
        (
            "{{ '%(role)s%(n)x' % {'role': 'user', 'n': 255} }}{{ '%s' % [1, 'a'] }}",
            "userff[1, 'a']",
        ),
        (
            "{{ '%s-%03d' | format('a', 7) }}{{ '%(x)s' | format(x=1) }}{{ '%s' % none }}",
            "a-0071None",
        ),
        (
            "{{ 2 ** 10 }}{{ 2 ** -1 }}{{ 4 ** 0.5 }}{{ 1.5 ** 2 }}{{ 7.5 % 2 }}",
            "10240.52.02.251.5",
        ),
        ("{% for tool in tools %}{{ tool }}{% endfor %}{% if not tools %}none{% endif %}", "none"),
        (
            "{% for x in [[], 'a', {}, 1, loop, none] %}{{ 'yn'[x is not sequence] }}{% endfor %}"
            "{% for x in 'a' %}{{ loop is sequence }}{% endfor %}",
            "yyynynFalse",
        ),
        (
            "{{ 7 - 2.5 }}{{ ({1: 2, 3: 4}.keys() - [1]) | list }}{{ {}.fromkeys('ab', 1) }}",
            "4.5[3]{'a': 1, 'b': 1}",
        ),
        (
            "{{ dict([(1, 2)], a=3) }}{{ dict({1: 2}) }}{{ dict() }}{{ namespace([('a', 1)]).a }}",
            "{1: 2, 'a': 3}{1: 2}{}1",
        ),
        ("{{ (1, 2) + (3,) }}{{ [] + [] }}{{ () + () }}", "(1, 2, 3)[]()"),
    ],
)
def test_what_templates_use(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('no system role') }}",
        "{% for",
        "{{ undefined.attribute }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ 'a' * 10**10 }}",
        "{{ 'a' * 10000000000 }}",
        "{{ ['a'] * 10000000000 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ 'a' ** 2 }}",
        "{{ 'a' / 2 }}",
        "{{ 'a' * 1.5 }}",
        "{{ 'a' * 'a' }}",
        "{{ (99 ** 500) * 'a' }}",
        "{{ ('a' | safe) * 1000000000 }}",
        "{{ range(9) * 1000000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%.999999999d' % 1 }}",
        "{{ '%.999999999f' | format(1) }}",
        "{{ '%(a)999999999s' % {'a': 1} }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%r' % 'a' }}",
        "{{ '%s' % ('a', 'b') }}",
        "{{ '%(a)s' % 1 }}",
        "{{ '100%' % () }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ ('%1000000000d' | safe) % 1 }}",
        "{{ '%999999999s' * 9 % (1, 1, 1, 1, 1, 1, 1, 1, 1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ lipsum(1000000) }}",
        "{% for a in range(1000000000) %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ ('{:1000000000}' | attr('format'))(1) }}",
        "{{ '{:{}}'.format(1, 1000000000) }}",
        "{{ '{0.real}'.format(1) }}",
        "{{ '{0[a]}'.format({'a': 1}) }}",
        "{{ '{!r}'.format('a') }}",
        "{{ '{'.format('a') }}",
        "{{ ('{:1000000000}' | safe).format(1) }}",
        "{{ '{a}'.format_map({'a': 1}) }}",
        "{{ 'a\nb' | indent(1000000000) }}",
        "{% generation %}",
        "{{ 'a'.encode() }}",
        "{{ (1).to_bytes(10000000000, 'big') }}",
        "{{ 1.5 | round(10000000000, 'ceil') }}",
        "{% include 'x' %}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "x" * (MAX_SOURCE_CHARS + 1),
    ],
)
def test_hostile_and_broken_templates_are_refused(template: str) -> None:
    before = sys.gettrace()
    with pytest.raises(InvalidField):
        rendered(template)
    assert sys.gettrace() is before


def test_why_a_template_cannot_be_read_is_told_without_its_source() -> None:
    with pytest.raises(InvalidField) as error:
        rendered("a secret\n{% for")
    assert "TemplateSyntaxError" in error.value.message
    assert "secret" not in error.value.message


def test_a_model_without_a_template() -> None:
    with pytest.raises(InvalidField, match=re.escape("no chat template")):
        render(INFO, USER, lambda: 0.0)
