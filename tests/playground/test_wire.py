"""The tab Wire: the request as code in every dialect, and the answer as it came."""

import json

from tests.playground.browser import Page
from tests.playground.writing import IDLE, TOKENS, choose, complete, write
from tests.support.live import Live


def test_the_request_is_shown_and_sent_in_every_dialect(page: Page, served: Live) -> None:
    write(page, "The sea", max_tokens=5, seed=1, temperature=0)
    complete(page)
    page.click("#tab-wire")
    page.until("document.querySelector('#wire-raw').textContent.includes('data: ')")
    for name in json.loads(served.client.get("/play/guide.json").text)["dialects"]:
        choose(page, "#wire-dialect", name["name"])
        page.until(f"document.querySelector('#wire-code').textContent.includes('/{name['name']}/')")
        page.js("document.querySelector('#wire-raw').textContent = ''")
        page.click("#wire-send")
        page.until("document.querySelector('#wire-raw').textContent.includes('HTTP 200')")
    choose(page, "#wire-language", "python")
    page.until("document.querySelector('#wire-code').textContent.includes('import')")


# The first question after this is answered when `release` is called, and read by the page before that returns.
HOLD = """
(() => {
  const real = window.fetch;
  window.fetch = async (...asked) => {
    window.fetch = real;
    const said = await (await real(...asked)).json();
    return new Promise((resolve) => {
      window.release = async () => {
        resolve({ ok: true, status: 200, json: async () => said });
        await new Promise((next) => setTimeout(next));
      };
    });
  };
})()
"""


def test_an_answer_that_comes_late_does_not_stand_in_for_a_later_one(page: Page) -> None:
    """Who chose another dialect meanwhile saw the code of the one before."""
    write(page, "The sea", max_tokens=5, seed=1, temperature=0)
    complete(page)
    page.click("#tab-wire")
    page.until("document.querySelector('#wire-code').textContent.includes('/v1/completions')")
    page.js(HOLD)
    choose(page, "#wire-dialect", "llamacpp")
    page.until("window.release")
    choose(page, "#wire-dialect", "vllm")
    page.until("document.querySelector('#wire-code').textContent.includes('/vllm/')")
    page.js("window.release()")
    assert "/vllm/" in page.text("#wire-code")


def test_what_is_continued_is_shown_and_sent_as_text_where_prompts_are_text(page: Page) -> None:
    write(page, "The sea", max_tokens=5, seed=1, temperature=0)
    before = complete(page)
    page.press("Ctrl", "Enter")
    page.until(f"{IDLE} && {TOKENS}.length > 5")
    page.click("#tab-wire")
    choose(page, "#wire-dialect", "ollama")
    page.until("document.querySelector('#wire-code').textContent.includes('num_predict')")
    assert json.dumps(before) in page.text("#wire-code")
    assert "token ids in the prompt" in page.text("#wire-lost")
    page.click("#wire-send")
    page.until("document.querySelector('#wire-raw').textContent.includes('HTTP 200')")


def test_the_wire_shows_the_request_that_was_refused(page: Page) -> None:
    """Not the one behind the answer on the sheet: what came back stands below it."""
    write(page, "x", max_tokens=4, seed=1)
    complete(page)
    page.click("#tab-constraint")
    choose(page, "#constraint-kind", "json_schema")
    page.click("#constraint-text")
    page.type('{"type": "nonsense"}')
    page.press("Ctrl", "Enter")
    page.until("!document.querySelector('#problem').hidden")
    page.click("#tab-wire")
    page.until("document.querySelector('#wire-code').textContent.includes('nonsense')")
    assert "HTTP 400" in page.text("#wire-raw")
    choose(page, "#constraint-kind", "")
    complete(page)
    page.until("!document.querySelector('#wire-code').textContent.includes('nonsense')")
    assert "HTTP 200" in page.text("#wire-raw")
    page.errors.clear()  # the browser itself notes every 400
