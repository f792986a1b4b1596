import re
import sys

import pytest
from msgspec.structs import replace

from segue.dialects.templates.chat_template import MAX_SOURCE_CHARS, render
from segue.errors import InvalidField
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
USER = [{"role": "user", "content": "Hi <b>"}]


def rendered(template: str, content: str = "Hi <b>") -> str:
    info = replace(INFO, chat_template=template, bos_token="<s>", eos_token="</s>")
    return render(info, [{"role": "user", "content": content}], lambda: 86_400.0)


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
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ lipsum(1000000) }}",
        "{% for a in range(1000000000) %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ ('{:1000000000}' | attr('format'))(1) }}",
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


def test_the_text_is_bounded() -> None:
    with pytest.raises(InvalidField, match="too long a text"):
        rendered("{% for a in range(100) %}{{ messages[0].content }}{% endfor %}", "x" * 400_000)


def test_a_model_without_a_template() -> None:
    with pytest.raises(InvalidField, match=re.escape("no chat template")):
        render(INFO, USER, lambda: 0.0)
