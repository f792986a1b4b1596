"""The pictures in the documents, of the embedded model: `python -m tests.playground.pictures http://127.0.0.1:8080`."""

import sys
from pathlib import Path

from tests.playground import browser as driver
from tests.playground.browser import Page, chromium

FOLDER = Path(__file__).parent.parent.parent / "docs" / "images"
IDLE = (
    "document.querySelector('#stop').hidden && document.querySelectorAll('#tinted .tok').length > 3"
)
STORY = "The lighthouse keeper had lived alone for so long that he"


def write(page: Page, text: str, seed: int) -> None:
    page.js(
        "(() => { const set = (id, value) => { const each = document.querySelector(id); each.value = value;"
        " each.dispatchEvent(new Event('input')); };"
        f" set('#parameter-seed', {seed}); set('#parameter-temperature', 0.8); set('#text', ''); }})()"
    )
    page.click("#text")
    page.type(text)


def alternatives(page: Page, place: int) -> None:
    page.point(f"#tinted .tok:nth-of-type({place})")
    page.until("!document.querySelector('#alternatives').hidden")


def main(url: str) -> None:
    driver.PATIENCE_S = 180.0  # a real model on a busy machine
    with chromium() as browser, browser.page() as page:
        page.screen(1280, 800)
        page.open(url)
        write(page, STORY, 7)
        page.press("Ctrl", "Enter")
        page.until(IDLE)
        page.click("#same")
        page.until("document.querySelector('#same').dataset.same")
        alternatives(page, 8)
        page.picture(FOLDER / "page.png")
        page.screen(1280, 800, dark=True)
        page.point("h1")
        page.until("document.querySelector('#alternatives').hidden")
        page.click("#tab-wire")
        page.until("document.querySelector('#wire-code').textContent.includes('curl')")
        page.picture(FOLDER / "page-dark.png")
        page.click("#tab-parameters")
        page.screen(390, 844, phone=True)
        page.js("scrollTo(0, 0)")
        page.tap("#tinted .tok:nth-of-type(8)")
        page.until("!document.querySelector('#alternatives').hidden")
        page.picture(FOLDER / "page-phone.png")


if __name__ == "__main__":
    main(sys.argv[1])
