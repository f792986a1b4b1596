"""What counts of all that a template makes: what is alive."""

import time

import pytest
from msgspec.structs import replace

from segue.dialects.templates import alive
from segue.dialects.templates.chat_template import render
from segue.errors import InvalidField
from tests.support.fakes import INFO

ALL_IN_ONE = (
    "{% set ns = namespace(text='') %}"
    "{% for each in messages %}{% set ns.text = ns.text + each.content %}{% endfor %}"
    "{{ ns.text }}"
)
KEPT = "{% set ns = namespace(x=[]) %}{% for i in range(200) %}{% set ns.x = STEP %}{% endfor %}"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alive, "MAX_BYTES", 2**20)
    monkeypatch.setattr(alive, "_LEAST_BYTES", 2**16)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # however slow it is here


def rendered(template: str, *contents: str) -> str:
    messages = [{"role": "user", "content": each} for each in contents]
    return render(replace(INFO, chat_template=template), messages, lambda: 0.0)


def test_a_prompt_that_is_gathered_in_one_text_counts_once() -> None:
    """2,700 messages of 300 characters were more than could be made: each makes all before it anew."""
    contents = [f"{number:5000}" for number in range(100)]
    assert rendered(ALL_IN_ONE, *contents) == "".join(contents)
    assert rendered(ALL_IN_ONE.replace(" + ", " ~ "), *contents) == "".join(contents)


def test_a_text_that_is_given_back_as_it_is_counts_once() -> None:
    again = "{% set ns = namespace(x=messages[0].content) %}{% for i in range(999) %}"
    again += "{% set ns.x = ns.x | trim %}{% endfor %}{{ ns.x }}"
    assert rendered(again, "a" * 20_000) == "a" * 20_000


@pytest.mark.parametrize(
    "step",
    [
        "[ns.x, TEXT ~ i]",
        "(TEXT ~ i, ns.x)",
        "{'a': ns.x, 'b': TEXT ~ i}",
        "namespace(a=ns.x, b=TEXT ~ i)",
        "[ns.x, TEXT ~ i] | reverse",
        "[ns.x, TEXT ~ i] | map('default')",
        "ns.x + [(TEXT * 2) | upper]",
    ],
)
def test_what_is_kept_inside_of_others_counts(step: str) -> None:
    with pytest.raises(InvalidField, match=r"it makes too (much|large a value)"):
        rendered(KEPT.replace("STEP", step).replace("TEXT", "messages[0].content"), "a" * 20_000)


def test_what_is_freed_is_not_held_for_long() -> None:
    held = []
    with alive.counting():
        for number in range(500):
            alive.made(f"{number:8000}")
            held.append(sum(size for size, _ in alive._here.held.values()))
    assert 2**15 < max(held) < 2**17


@pytest.mark.parametrize("end", ["", "{{ raise_exception('x') }}", "{{ 1 / 0 }}"])
def test_nothing_is_held_afterwards(end: str) -> None:
    try:
        rendered("{% set x = messages[0].content ~ 1 %}" + end, "a" * 20_000)
    except InvalidField:
        assert end
    assert not alive._here.held


def test_what_is_small_counts_for_good() -> None:
    """It is not held, and most of it is freed at once."""
    small = "{% for i in range(3000) %}{% set x = messages[0].content ~ i %}{% endfor %}"
    with pytest.raises(InvalidField, match="it makes too much"):
        rendered(small, "a" * 1000)
    assert rendered(small.replace("3000", "300"), "a" * 1000) == ""
