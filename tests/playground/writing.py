"""What a reader does on the page, and what it then shows."""

import json

from tests.playground.browser import Page

IDLE = "document.querySelector('#stop').hidden && !document.querySelector('#go').hidden"
TOKENS = "document.querySelectorAll('#tinted .tok')"


def write(page: Page, text: str, **parameters: object) -> None:
    for name, value in parameters.items():
        set_parameter(page, name, value)
    page.click("#text")
    page.type(text)


def set_parameter(page: Page, name: str, value: object) -> None:
    page.js(
        f"(() => {{ const input = document.querySelector('#parameter-{name}'); input.value = {json.dumps(str(value))};"
        " input.dispatchEvent(new Event('input')); })()"
    )


def choose(page: Page, selector: str, option: str) -> None:
    page.js(
        f"(() => {{ const each = document.querySelector('{selector}'); each.value = '{option}';"
        " each.dispatchEvent(new Event('change')); })()"
    )


def complete(page: Page) -> str:
    page.press("Ctrl", "Enter")
    page.until(f"{IDLE} && {TOKENS}.length > 0")
    return value(page)


def value(page: Page) -> str:
    return str(page.js("document.querySelector('#text').value"))


def num_tokens(page: Page) -> int:
    return int(page.js(f"{TOKENS}.length"))


def num_branches(page: Page) -> int:
    return int(page.js("document.querySelectorAll('#branch-tree button').length"))
