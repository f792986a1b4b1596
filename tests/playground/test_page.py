"""The page as people use it, in a real browser: tests/playground/browser.py drives it."""

import json

import pytest

from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.fleet import Fleet, Member
from segue.engine.seam import Engine
from segue.runners.fake import FakeLoader
from segue.server.admission.keys import Keyring, parse_key
from segue.types import ServedAdapter
from tests.playground.browser import Chromium, Page
from tests.playground.writing import (
    IDLE,
    TOKENS,
    choose,
    complete,
    num_branches,
    num_tokens,
    value,
    write,
)
from tests.support.fakes import Pause, ScriptedEngine, speak
from tests.support.live import Live, Served
from tests.support.waiting import PATIENCE_S

# --- completing ----------------------------------------------------------------------------------


def test_a_completion_streams_in_place(page: Page) -> None:
    write(page, "Once upon", max_tokens=12, seed=3)
    assert complete(page).startswith("Once upon")
    assert page.text("#tinted").rstrip("\u200b") == value(page)
    assert num_tokens(page) == 12
    assert "12 tokens" in page.text("#facts")
    assert "seed 3" in page.text("#facts")
    assert "9 in the prompt" in page.text("#facts")
    assert page.text("#go").startswith("Continue")


def test_what_is_shown_is_what_the_server_said(page: Page, served: Live) -> None:
    write(page, "Once upon", max_tokens=40, seed=3)
    shown = complete(page)
    answer = served.complete(prompt="Once upon", max_tokens=40, seed=3).json()
    assert shown == "Once upon" + answer["choices"][0]["text"]


def test_it_goes_on_from_its_own_tokens(page: Page, served: Live) -> None:
    write(page, "abc", max_tokens=8, temperature=0)
    complete(page)
    page.press("Ctrl", "Enter")
    page.until(f"{IDLE} && {TOKENS}.length === 16")
    whole = served.complete(prompt="abc", max_tokens=16, temperature=0).json()
    assert value(page) == "abc" + whole["choices"][0]["text"]


def test_it_stops(browser: Chromium) -> None:
    """The page where it is, and the model, which would go on for ever."""
    engine = ScriptedEngine(lambda request: [*list(speak(*"seaside")(request))[:-2], Pause()])

    async def start() -> Engine:
        return engine

    with Served(Fleet([Member("tiny", (), start)])) as served, browser.page() as page:
        page.open(served.url)
        write(page, "abc", max_tokens=100)
        page.press("Ctrl", "Enter")
        page.until(f"{TOKENS}.length === 7")
        assert page.js("document.querySelector('#text').readOnly")
        page.press("Escape")
        page.until(IDLE)
        assert value(page) == "abcseaside"
        assert not page.js("document.querySelector('#text').readOnly")
        assert "ended by you" in page.text("#facts")
        assert engine.closed.wait(PATIENCE_S)
        assert page.errors == []


def test_a_connection_that_is_lost_is_told_in_words_and_keeps_the_text(page: Page) -> None:
    """It was "network error" in one browser and "Load failed" in another."""
    page.js("""
        const whole = window.fetch;
        window.fetch = async (path, asked) => {
          const answer = await whole(path, asked);
          if (!path.endsWith("completions")) return answer;
          const reader = answer.body.getReader();
          const pull = async (body) => {
            const { value } = await reader.read();
            if (value) body.enqueue(value);
            else body.error(new TypeError("network error"));
          };
          return new Response(new ReadableStream({ pull }), answer);
        };
        null
    """)
    write(page, "Once upon", max_tokens=12, seed=3)
    assert complete(page).startswith("Once upon")
    assert page.text("#problem") == "The connection to the server was lost."
    assert num_tokens(page) == 12
    assert not page.js("document.querySelector('#text').readOnly")


def test_half_characters_come_together(browser: Chromium) -> None:
    script = "Grüße — 世界 🎈. ".encode()
    with Live(FakeLoader(script=script)) as live, browser.page() as page:
        page.open(live.url)
        write(page, "x", max_tokens=len(script), temperature=0)
        text = complete(page)
        assert "世界 🎈" in text
        assert "\ufffd" not in text
        assert page.errors == []


def test_editing_keeps_the_tokens_before_and_drops_those_after(page: Page) -> None:
    write(page, "abc", max_tokens=10, seed=5)
    complete(page)
    page.js("document.querySelector('#text').setSelectionRange(6, 6)")
    page.type("!")
    page.until(f"{TOKENS}.length < 10")
    assert num_tokens(page) <= 3
    assert value(page)[6] == "!"


# --- tokens and branches -------------------------------------------------------------------------


def test_pointing_at_a_token_shows_its_alternatives_and_one_can_be_taken(page: Page) -> None:
    write(page, "The sea", max_tokens=12, seed=1)
    before = complete(page)
    page.point("#tinted .tok:nth-of-type(5)")
    page.until("!document.querySelector('#alternatives').hidden")
    assert "%" in page.text("#alternatives")
    page.click("#alternatives button:not(:disabled)")
    page.until(f"{IDLE} && document.querySelectorAll('#branch-tree button').length === 2")
    after = value(page)
    assert after != before
    assert after[:10] == before[:10]
    page.press("Alt", "ArrowLeft")
    page.until(f"document.querySelector('#text').value === {json.dumps(before)}")


def test_the_keyboard_alone_is_enough(page: Page) -> None:
    write(page, "The sea", max_tokens=6, seed=1)
    before = complete(page)
    page.press("Alt", "ArrowDown")
    page.until("document.querySelector('#alternatives').contains(document.activeElement)")
    page.press("ArrowLeft")
    page.press("ArrowDown")
    page.js("document.activeElement.click()")
    page.until(f"{IDLE} && document.querySelectorAll('#branch-tree button').length === 2")
    assert value(page) != before
    page.press("Alt", "4")
    assert not page.js("document.querySelector('#branches').hidden")


def test_again_makes_another_branch_of_the_same_place(page: Page) -> None:
    write(page, "The sea", max_tokens=12)
    first = complete(page)
    page.press("Ctrl", "Shift", "Enter")
    page.until(f"{IDLE} && document.querySelectorAll('#branch-tree button').length === 2")
    assert value(page) != first
    page.click("#tab-branches")
    page.click("#branch-tree li:first-child button")
    page.until(f"document.querySelector('#text').value === {json.dumps(first)}")


def test_choices_stand_side_by_side(page: Page) -> None:
    write(page, "The sea", max_tokens=8, n=3, seed=1)
    complete(page)
    page.until("document.querySelectorAll('#choices .choice').length === 3")
    page.click("#choices .choice:nth-child(3)")
    page.until("document.querySelector('#choices .choice:nth-child(3)').ariaPressed === 'true'")
    chosen = page.js(
        "[...document.querySelectorAll('#choices .choice:nth-child(3) .tok')].map(e => e.textContent).join('')"
    )
    assert value(page) == "The sea" + chosen


def test_a_link_holds_all_branches(page: Page, browser: Chromium, served: Live) -> None:
    write(page, "The sea", max_tokens=8, seed=4)
    complete(page)
    page.press("Ctrl", "Shift", "Enter")
    page.until(f"{IDLE} && document.querySelectorAll('#branch-tree button').length === 2")
    page.click("#share-button")
    page.click("#share-link")
    page.until("location.hash.length > 20")
    with browser.page() as other:
        other.open(str(page.js("location.href")))
        assert value(other) == value(page)
        assert num_branches(other) == 2
        assert other.js("document.querySelector('#parameter-seed').value") == "4"
        assert other.errors == []


# --- gaps and constraints ------------------------------------------------------------------------


def test_a_gap_is_filled_at_the_cursor(page: Page) -> None:
    write(page, "def add(a, b):\n\nprint(add(1, 2))", max_tokens=9, seed=2)
    page.js("document.querySelector('#text').setSelectionRange(15, 15)")
    page.press("Alt", "Enter")
    page.until(f"{IDLE} && {TOKENS}.length > 0")
    text = value(page)
    assert text.startswith("def add(a, b):\n")
    assert text.endswith("\nprint(add(1, 2))")
    assert len(text) > len("def add(a, b):\n\nprint(add(1, 2))")
    assert "gap by the model's own tokens" in page.text("#facts")


def test_a_schema_that_is_no_json_is_marked_at_its_line(page: Page) -> None:
    page.click("#tab-constraint")
    choose(page, "#constraint-kind", "json_schema")
    page.click("#constraint-text")
    page.type('{\n  "type": "object",\n  "oops"\n}')
    page.until("!document.querySelector('#constraint-problem').hidden")
    assert "not JSON" in page.text("#constraint-problem")
    assert page.text("#constraint-lines .at") in ("3", "4")


def test_a_schema_that_cannot_be_enforced_is_refused_where_it_is(page: Page) -> None:
    write(page, "x")
    page.click("#tab-constraint")
    choose(page, "#constraint-kind", "json_schema")
    page.click("#constraint-text")
    page.type('{"type": "nonsense"}')
    page.press("Ctrl", "Enter")
    page.until("!document.querySelector('#constraint-problem').hidden")
    assert page.js("document.querySelector('#constraint-text').ariaInvalid") == "true"
    assert "nonsense" in page.text("#problem")
    assert value(page) == "x"
    page.errors.clear()  # the browser itself notes every 400


@pytest.mark.parametrize(
    ("kind", "text", "allowed"),
    [("guided_regex", "[0-9]{4}", "0123456789"), ("guided_choice", "yes\nno", "yesno")],
)
def test_an_answer_keeps_to_its_constraint(page: Page, kind: str, text: str, allowed: str) -> None:
    write(page, "Answer: ", max_tokens=12, seed=1)
    page.click("#tab-constraint")
    choose(page, "#constraint-kind", kind)
    page.click("#constraint-text")
    page.type(text)
    assert set(complete(page).removeprefix("Answer: ")) <= set(allowed)


def test_a_refused_parameter_is_told_at_its_field(page: Page) -> None:
    write(page, "x", temperature=9)
    page.press("Ctrl", "Enter")
    page.until("document.querySelector('.parameter .wrong')")
    assert "temperature must be" in page.text(".parameter .wrong")
    page.errors.clear()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("temperature", "1e", "must be a number such as 0.5"), ("n", "-", "must be a whole number")],
)
def test_a_field_that_shows_no_number_is_not_taken_for_empty(
    page: Page, name: str, text: str, words: str
) -> None:
    """To a script such a field is empty: the request was sent without it, though one reads there what was typed."""
    page.click(f"#parameter-{name}")
    page.type(text)
    write(page, "x")
    page.press("Ctrl", "Enter")
    page.until("document.querySelector('.parameter .wrong')")
    assert page.text(".parameter .wrong") == f"{name} {words}"
    page.click("#parameters-reset")
    assert not page.js(f"document.querySelector('#parameter-{name}').validity.badInput")
    assert complete(page)


def test_a_number_may_begin_with_its_point(page: Page) -> None:
    """.5 is how many write it, and no JSON."""
    write(page, "x", top_p=".5", max_tokens=4)
    assert complete(page)


# --- what is behind it ---------------------------------------------------------------------------


def test_the_badge_repeats_and_compares(page: Page) -> None:
    write(page, "The sea", max_tokens=20, n=2)
    complete(page)
    page.click("#same")
    page.until("document.querySelector('#same').dataset.same === 'yes'")
    assert "same" in page.text("#same")


def test_parameters_come_from_the_tables(page: Page) -> None:
    assert page.js("document.querySelectorAll('.parameter').length") > 40
    set_filter = "document.querySelector('#parameter-filter')"
    page.js(f"({set_filter}.value = 'dry_base', {set_filter}.dispatchEvent(new Event('input')))")
    shown = "[...document.querySelectorAll('.parameter')].filter(e => e.offsetParent).map(e => e.textContent).join()"
    assert "dry_base" in str(page.js(shown))
    assert "temperature" not in str(page.js(shown))


def test_the_tokens_of_the_text_are_shown(page: Page) -> None:
    write(page, "héy")
    page.click("#tab-tokens")
    page.until("document.querySelectorAll('#token-list span').length === 4")
    assert "4 tokens of 4096" in page.text("#token-count")


def test_models_and_their_state_are_shown(page: Page) -> None:
    page.click("#tab-models")
    page.until("document.querySelector('#models .card')")
    assert "fake" in page.text("#models")
    assert "promised" in page.text("#models")
    assert "0 M parameters, 0 bytes" in page.text("#models")
    assert page.js("document.querySelector('#model-dot').dataset.status") == "ready"


def test_a_key_is_asked_for_and_never_kept(browser: Chromium) -> None:
    keys = Keyring([parse_key("me:secret-key")])
    with Live(FakeLoader(), keys=keys) as live, browser.page() as page:
        page.open(live.url)
        page.until("document.querySelector('#key').open")
        page.type("secret-key")
        page.press("Enter")
        page.js("document.querySelector('#key form button').click()")
        page.until("document.querySelector('#model-dot').dataset.status === 'ready'")
        write(page, "abc", max_tokens=4)
        complete(page)
        kept = page.js("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])")
        assert "secret-key" not in str(kept)
        assert page.js("document.querySelector('#key-input').value") == ""


def test_a_wrong_key_is_told_and_one_that_works_is_not_lost(browser: Chromium) -> None:
    keys = Keyring([parse_key("me:secret-key")])
    is_open = "document.querySelector('#key').open"
    with Live(FakeLoader(), keys=keys) as live, browser.page() as page:
        page.open(live.url)
        page.until(is_open)
        assert page.js("document.querySelector('#key-problem').hidden")
        page.type("me:secret-key")
        page.click("#key .primary")
        page.until(f"{is_open} && !document.querySelector('#key-problem').hidden")
        page.type("secret-key")
        page.click("#key .primary")
        page.until("document.querySelector('#model-dot').dataset.status === 'ready'")
        page.click("#key-button")
        page.until(is_open)
        page.js("document.querySelector('#key').close()")  # as Escape does
        write(page, "abc", max_tokens=4)
        complete(page)
        assert not page.js(is_open)


HELD = """
(() => {
  const real = window.fetch;
  window.fetch = (path, options) => {
    window.fetch = real;  // this one only
    return new Promise((resolve) => { window.release = () => { resolve(real(path, options)); }; });
  };
  document.dispatchEvent(new Event("visibilitychange"));
})()
"""


def test_a_late_answer_about_an_earlier_key_does_not_count(browser: Chromium) -> None:
    keys = Keyring([parse_key("me:secret-key")])
    with Live(FakeLoader(), keys=keys) as live, browser.page() as page:
        page.open(live.url)
        page.until("document.querySelector('#key').open")
        page.js(HELD)
        page.until("window.release")
        page.type("secret-key")
        page.click("#key .primary")
        page.until("document.querySelector('#model-dot').dataset.status === 'ready'")
        page.js("window.release()")
        write(page, "abc", max_tokens=4)
        complete(page)  # by now it has come
        assert not page.js("document.querySelector('#key').open")
        assert page.js("document.querySelector('#model-dot').dataset.status") == "ready"


def test_adapters_can_be_chosen_as_models(browser: Chromium) -> None:
    async def start() -> Engine:
        return ScriptedEngine(speak("one"))

    adapters = AdapterList(
        [ServedAdapter("pirate", "p.gguf"), ServedAdapter("poet", "q.gguf")], True
    )
    fleet = Fleet([Member("base", ("b",), start, adapters)])
    with Served(fleet) as served, browser.page() as tab:
        tab.open(served.url)
        tab.until("document.querySelectorAll('#model option').length === 3")
        names = tab.js("[...document.querySelectorAll('#model option')].map((each) => each.value)")
        assert names == ["base", "pirate", "poet"]
        tab.click("#tab-models")
        tab.until("document.querySelector('#models .card')")
        said = tab.text("#models")
    assert "LoRA adapterspirate, poet" in said  # terms and what they are, without what lies between
    assert "also calledbLoRA" in said
