"""What counts of all that a template makes: what is alive."""

import time
import weakref

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
        "[ns.x, (TEXT ~ i).partition('b')]",
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
            held.append(sum(size for size, _, _ in alive._here.held.values()))
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


@pytest.mark.parametrize(
    "form",
    [
        "(TEXT * 9).split('b')",
        "(TEXT * 9).rpartition('b')",
        "(TEXT * 9).rpartition('b')[0]",
        "(TEXT * 9).splitlines()[0]",
        "TEXT | list",
        "keys - []",
    ],
)
def test_what_stands_in_what_python_made_counts_too(form: str) -> None:
    """A list of two halves of a long text was counted as the list alone, and a set of keys not at all."""
    begin = "{% set keys = {}.fromkeys(range(3000)).keys() %}"
    form = form.replace("TEXT", "messages[0].content")
    lines = [f"{{% set a{number} = {form} %}}" for number in range(60)]
    text = "\U0001f600" * 2000 + "b"
    assert rendered(begin + lines[0], text) == ""
    with pytest.raises(InvalidField, match="it makes too much"):
        rendered(begin + "".join(lines), text)


def test_what_was_there_before_does_not_count_in_another_list() -> None:
    again = "{% for i in range(50) %}{% set x = messages | selectattr('role') | list %}{% endfor %}"
    assert rendered(again, *["a" * 3000] * 50) == ""


def test_what_holds_itself_does_not_stay_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rendering left as much as it may make, until there were many objects of any size."""

    class Kept: ...

    monkeypatch.setattr(alive, "_MAX_LEFT", 2**18)
    monkeypatch.setattr(alive._Left, "num_bytes", 0)
    circle = (
        "{% set ns = namespace() %}{% set ns.ns = ns %}{% set ns.a = kept %}{% set ns.b = LONG %}"
    )
    kept = Kept()
    render(
        replace(INFO, chat_template=circle.replace("LONG", "'a' * 300000")),
        [],
        lambda: 0.0,
        variables={"kept": kept},
    )
    found = weakref.ref(kept)
    del kept
    assert found() is None
