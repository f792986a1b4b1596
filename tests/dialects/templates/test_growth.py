"""Hostile templates: each step of one is bounded, and what it keeps, and its time."""

import contextlib
import gc
import itertools
import time
import weakref

import pytest
from msgspec.structs import replace

from segue.dialects.templates import alive, chat_template, growth
from segue.dialects.templates.chat_template import render
from segue.errors import InvalidField
from tests.dialects.templates.rendered import USER, rendered
from tests.support import clocks
from tests.support.fakes import INFO

DOUBLED = "{% set ns = namespace(x='aaaaaaaa', y=[1, 2], n=3) %}{% for i in range(60) %}STEP{% endfor %}END"


@pytest.mark.parametrize(
    ("step", "end"),
    [
        ("{% set ns.x = ns.x ~ ns.x %}", ""),
        ("{% set ns.x = ns.x + ns.x %}", ""),
        ("{% set ns.x = [ns.x, ns.x] | join %}", ""),
        ("{% set ns.x = ns.x.join([ns.x, ns.x]) %}", ""),
        ("{% set ns.x = ns.x | replace('a', 'aa') %}", ""),
        ("{% set ns.x = ns.x.replace('a', 'aa') %}", ""),
        ("{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}", ""),
        ("{% set ns.x = '{0}{0}'.format(ns.x) %}", ""),
        ("{% set ns.x = (ns.x ~ '\n') | indent(ns.x, first=true) %}", ""),
        ("{% set ns.y = ns.y + ns.y %}", ""),
        ("{% set ns.y = [ns.y, ns.y] | sum(start=[]) %}", ""),
        ("{% set ns.n = ns.n * ns.n %}", ""),
        ("{% set ns.n = ns.n ** 2 %}", ""),
        ("{% set ns.x = ns.x * 2 %}", ""),
        ("{% set ns.x = 2 * (ns.x | safe) %}", ""),
        ("{% set ns.x = '%s%s' % (ns.x, ns.x) %}", ""),
        ("{% set ns.x = '%(a)s%(a)s' | format(a=ns.x) %}", ""),
        ("{% set ns.y = ns.y * 2 %}", ""),
        ("{% set ns.y = [ns.y] * 2 %}", ""),
        ("{% set ns.y = [ns.y, ns.y] %}", "{{ ns.y }}"),
        ("{% set ns.y = {'a': ns.y, 'b': ns.y} %}", "{{ ns.y | tojson }}"),
        ("{% set ns.y = [ns.y, ns.y] %}", "{{ ns.y | upper }}"),
        ("{% set ns.y = [ns.y, ns.y] %}", "{{ 'a' ~ ns.y }}"),
    ],
)
def test_what_a_template_makes_is_bounded_at_each_step(
    step: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took all of the server's memory, or its time, in one step that nothing could interrupt."""
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # however slow it is here
    with pytest.raises(InvalidField, match=r"too large a (value|number)"):
        rendered(DOUBLED.replace("STEP", step).replace("END", end))


GROWN = (
    "{% set ns.y = [ns.y, ns.y] %}",
    "{% set ns.y = (ns.y, ns.y) %}",
    "{% set ns.y = {1: ns.y, 2: ns.y} %}",
    "{% set ns.y = dict(a=ns.y, b=ns.y) %}",
    "{% set ns.y = {}.fromkeys([1, 2], ns.y) %}",
    "{% set ns.y = [none, none] | map('default', ns.y, true) | list %}",
    "{% set ns.y = namespace(a=ns.y, b=[ns.y]) %}",
    "{% set ns.y = {1: ns.y, 2: ns.y}.values() %}",
    "{% set ns.y = {1: ns.y, 2: ns.y}.items() %}",
)


@pytest.mark.parametrize("step", GROWN)
def test_what_holds_a_thing_twice_is_weighed_when_it_is_made(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them were compared for ever, or one was written or looked up, while all of the server stood still."""
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # however slow it is here
    with pytest.raises(InvalidField, match="too large a value"):
        rendered(DOUBLED.replace("STEP", step).replace("END", ""))


@pytest.mark.parametrize(
    "form",
    [
        "TEXT ~ 1",
        "TEXT + '1'",
        "TEXT[1:]",
        "TEXT.upper()",
        "TEXT | upper",
        "TEXT | replace('a', 'b')",
        "'<{}>'.format(TEXT)",
        "'%s.' % TEXT",
        "TEXT * 2",
        "[TEXT, 1] | join",
        "LIST[1:]",
        "LIST * 2",
        "LIST + [1]",
        "LIST | reverse | list",
    ],
)
def test_all_that_a_template_makes_and_keeps_is_bounded_together(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text had its bound, and thousands of them were kept, each by a name of its own."""
    monkeypatch.setattr(alive, "MAX_BYTES", 2**20)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # however slow it is here
    form = form.replace("TEXT", "messages[0].content").replace("LIST", "list")
    lines = [f"{{% set a{number} = {form} %}}" for number in range(200)]
    begin = "{% set list = range(2000) | list %}"
    assert rendered(begin + lines[0], "a" * 20_000) == ""
    with pytest.raises(InvalidField, match="it makes too much"):
        rendered(begin + "".join(lines), "a" * 20_000)
    assert rendered(begin + lines[0], "a" * 20_000) == "", "another one may make as much again"


@pytest.mark.parametrize("wrong", ["{{ raise_exception('x') }}", "{{ a.b.c }}", "{{ 1 / 0 }}"])
def test_nothing_stays_of_what_a_template_made_that_failed(wrong: str) -> None:
    """Until the next collection of what leads back to itself, which counts objects and not their size."""

    class Kept: ...

    def refused() -> weakref.ref[Kept]:
        kept = Kept()
        with contextlib.suppress(InvalidField):
            render(
                replace(INFO, chat_template="{% set a = kept %}" + wrong),
                USER,
                lambda: 0.0,
                variables={"kept": kept},
            )
        return weakref.ref(kept)

    gc.disable()
    try:
        assert refused()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("filter_", ["length", "count", "first", "last", "default([])"])
def test_messages_are_not_weighed_by_who_looks_at_one_or_none(
    filter_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qwen's template asks for their number with each: of 2,000 messages that took longer than a template may."""
    weighed: list[type] = []

    def weigh(value: object) -> object:
        weighed.append(type(value))
        return value

    monkeypatch.setattr(growth, "weighed", weigh)
    rendered(
        "{% for each in messages %}{% set x = messages | FILTER %}{% endfor %}".replace(
            "FILTER", filter_
        )
    )
    assert set(weighed) <= {list}  # what stands in the template itself
    assert len(weighed) <= 1


@pytest.mark.parametrize(
    "form",
    [
        "LONG.rfind(LONG)",
        "LONG | trim(LONG)",
        "LONG.strip(LONG)",
        "LONG.split('a')",
        "LONG.split()",
        "LONG | list",
        "LONG | title",
        "(LONG | safe).replace('a', LONG)",
        "[range(99999), range(99999), range(99999)] | map('list') | list",
        "LONG | int(0, 16) // 3",
        "LONG | striptags",
        "LONG | urlize",
    ],
)
def test_what_takes_long_in_one_step_with_a_long_text(form: str) -> None:
    with pytest.raises(InvalidField):
        rendered("{{ " + form.replace("LONG", "messages[0].content") + " }}", "a" * 600_000)


ENDLESS = "{% for a in all %}{% for b in all %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    "step",
    [
        "{% for b in [1] %}{% if loop is sequence %}{% endif %}{% endfor %}",
        "{% for b in [1, 2] if b %}{% break %}{% endfor %}",
        "{% for b in [1, 2] if b %}{% for c in [1, 2] if c %}{% break %}{% endfor %}{% break %}{% endfor %}",
        "{% for b in [1, 2] recursive %}{{ loop([]) }}{{ loop.length }}{% endfor %}",
    ],
)
def test_a_template_that_runs_for_too_long_is_told_wherever_it_is(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the test for sequences was, or a generator ended early, nobody heard of it, and no step was counted any
    more: such a template ran for ever."""
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # however slow it is here
    template = "{% set all = range(999) %}{% for a in all %}STEP{% endfor %}" + ENDLESS
    for number in range(40):
        monkeypatch.setattr(chat_template, "MAX_STEPS", 500 + number)
        with pytest.raises(InvalidField, match="it runs for too long"):
            rendered(template.replace("STEP", step))


def test_texts_that_are_compared_over_and_over_are_weighed_together() -> None:
    """Each of a quarter of a million entries was the same text, and another that is like it but for its end was looked
    for among them: in one step, for hours."""
    twice = "{% for i in range(18) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"
    for pair in ("[long]", "(long,)"):
        begin = "{% set long = messages[0].content %}{% set ns = namespace(x=PAIR) %}"
        with pytest.raises(InvalidField, match="too large a value"):
            rendered(begin.replace("PAIR", pair) + twice, "a" * 10_000)


def test_a_list_that_grows_entry_by_entry_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weighed: list[int] = []
    check = growth._check

    def counted(size: int, waiting: list[tuple[object, int]]) -> int:
        weighed.append(sum(len(each) for each, _ in waiting if isinstance(each, list)))
        return check(size, waiting)

    monkeypatch.setattr(growth, "_check", counted)
    grown = "{% set ns = namespace(x=[]) %}{% for i in range(300) %}{% set ns.x = ns.x + [i] %}{% endfor %}"
    assert rendered(grown + "{{ ns.x | length }}") == "300"
    assert max(weighed) == 1


@pytest.mark.parametrize("form", ["{}.fromkeys(all)", "dict(all)", "namespace(all)"])
def test_keys_that_are_alike_are_put_in_while_the_clock_is_looked_at(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty thousand numbers with the same hash are compared each with each: in one step, for half a minute."""
    clocks.show(monkeypatch, map(float, itertools.count()))
    monkeypatch.setattr(chat_template, "MAX_S", 500.0)
    with pytest.raises(InvalidField, match="runs for too long"):
        rendered(
            "{% set all = 'ab ' * 999 %}{% set x = FORM %}".replace(
                "FORM", form.replace("all", "all.split()")
            )
        )


def test_nothing_is_computed_before_there_is_a_bound_of_time() -> None:
    template = "{% if 'a' | upper == 'a' %}{{ 'a' | upper }}{% endif %}"
    assert "'A'" not in chat_template._sandbox().compile(template, raw=True)


@pytest.mark.parametrize(
    "form",
    [
        "'{}' | replace('a', '{}')",
        "'{}'.replace('a', '{}')",
        "'{}' | list | join('{}')",
        "'{1}'.join('{0}')",
    ],
)
def test_a_long_text_in_place_of_each_letter(form: str) -> None:
    with pytest.raises(InvalidField, match="too large a value"):
        rendered("{{ " + form.format("a" * 100_000, "b" * 100_000) + " }}")


def test_lines_that_take_long_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of half a million steps could read a list of a hundred thousand."""
    clocks.show(monkeypatch, map(float, itertools.count()))
    with pytest.raises(InvalidField, match="runs for too long"):
        rendered("{% for a in range(9) %}{{ a }}{% endfor %}")


def test_the_text_is_bounded() -> None:
    with pytest.raises(InvalidField, match="too long a text"):
        rendered("{% for a in range(100) %}{{ messages[0].content }}{% endfor %}", "x" * 400_000)
