"""The page on screens of every width, by touch, in both themes."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.playground.browser import Page
from tests.playground.writing import complete, write
from tests.support.live import Live


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_sticks_out_on_a_narrow_screen(page: Page, width: int) -> None:
    page.screen(width, 800, phone=True)
    write(page, "The sea and a " + "verylongword" * 20, max_tokens=12, seed=1)
    complete(page)
    for tab in ("parameters", "constraint", "tokens", "branches", "wire", "models"):
        page.js(f"document.querySelector('#tab-{tab}').click()")
        assert page.js("document.scrollingElement.scrollWidth <= innerWidth"), tab


@pytest.mark.parametrize("width", [320, 360, 390, 1280])
def test_nothing_in_the_bar_lies_on_something_else(page: Page, width: int) -> None:
    page.screen(width, 800, phone=True)
    page.js("document.querySelector('#model').options[0].text = 'a-model-with-a-long-name'")
    edges = page.js(
        "[...document.querySelectorAll('.bar h1, .bar select, .bar button, .bar a')]"
        ".map(e => e.getBoundingClientRect()).filter(r => r.width).map(r => [r.left, r.right])"
    )
    assert all(left >= right for (_, right), (left, _) in pairwise(edges)), edges


def test_a_tap_opens_the_alternatives_within_the_screen(page: Page) -> None:
    page.screen(390, 844, phone=True)
    write(page, "The sea", max_tokens=12, seed=1)
    complete(page)
    page.tap("#tinted .tok:nth-of-type(4)")
    page.until("!document.querySelector('#alternatives').hidden")
    left, right = page.js(
        "(r => [r.left, r.right])(document.querySelector('#alternatives').getBoundingClientRect())"
    )
    assert left >= 0
    assert right <= 390


@pytest.mark.parametrize("is_phone", [False, True])
def test_the_smallest_share_stands_on_one_line(page: Page, is_phone: bool) -> None:
    page.screen(390 if is_phone else 1280, 844, phone=is_phone)
    write(page, "The sea", max_tokens=4, seed=1)
    complete(page)
    page.js("document.querySelector('#text').focus()")
    page.press("Alt", "ArrowDown")
    page.until("document.querySelector('#alternatives button')")
    share = "document.querySelector('#alternatives button').lastElementChild"
    fits = f"(e => e.scrollWidth <= e.clientWidth && e.offsetHeight < 30)({share})"
    page.js(f"{share}.textContent = '< 0.1 %'")
    assert page.js(fits)


def test_a_tap_points_at_a_token_and_the_next_one_edits(page: Page) -> None:
    """The keyboard, which comes with the first edit, would cover the alternatives."""
    page.screen(390, 844, phone=True)
    write(page, "The sea", max_tokens=12, seed=1)
    complete(page)
    page.js("document.activeElement.blur()")
    is_edited = "document.activeElement.id === 'text'"
    for place in (4, 6):
        token = f"#tinted .tok:nth-of-type({place})"
        page.tap(token)
        page.until(f"document.querySelector('{token}').classList.contains('at')")
        assert not page.js(is_edited)
    page.tap("#tinted .tok:nth-of-type(6)")
    page.until(is_edited)


def test_the_legend_has_the_tints_of_the_text_and_names_what_a_finger_does(page: Page) -> None:
    tints = "[...document.querySelectorAll('.legend .tok')].map(e => [parseFloat(e.textContent), e.className])"
    rows = page.js(
        f"import('/play/tokens.js').then(({{shade}}) => {tints}.map(([percent, tint]) =>"
        " [tint, 'tok p' + shade(Math.log(percent / 100))]))"
    )
    assert [tint for tint, _ in rows] == [f"tok p{number}" for number in range(9)]
    assert all(shown == drawn for shown, drawn in rows), rows
    shown = "[...document.querySelectorAll('.legend > span')].filter(e => e.checkVisibility()).map(e => e.className)"
    assert page.js(shown) == ["tints", "pointing"]
    page.screen(390, 844, phone=True)
    assert page.js(shown) == ["tints", "tapping"]


def test_the_two_layers_of_text_lie_on_each_other(page: Page) -> None:
    """Or pointing at a token would find its neighbour."""
    for width in (1280, 390):
        page.screen(width, 860)
        page.js(
            "(t => { t.value = ''; t.dispatchEvent(new Event('input')); })(document.querySelector('#text'))"
        )
        write(
            page,
            "A longer text that must be broken into several lines. " * 6,
            max_tokens=60,
            seed=1,
        )
        complete(page)
        heights = page.js(
            "[document.querySelector('#text').scrollHeight, document.querySelector('#tinted').scrollHeight]"
        )
        assert heights[0] == heights[1]


def test_the_theme_can_be_switched_and_is_remembered(page: Page, served: Live) -> None:
    colour = "getComputedStyle(document.querySelector('.sheet')).backgroundColor"
    light = page.js(colour)
    page.click("#theme")
    dark = page.js(colour)
    assert dark != light
    page.open(served.url)
    assert page.js(colour) == dark
    page.js("localStorage.clear()")


def test_everything_that_can_be_pressed_has_a_name(page: Page) -> None:
    nameless = page.js(
        "[...document.querySelectorAll('button, select, input, textarea, a')].filter(e =>"
        " !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.hidden)).map(e => e.outerHTML)"
    )
    assert nameless == []


def test_pictures_can_be_taken(page: Page, tmp_path: Path) -> None:
    page.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_choices_of_different_lengths_begin_at_one_height(page: Page) -> None:
    write(page, "The sea", max_tokens=12, n=3, seed=1)
    complete(page)
    page.js("document.querySelector('.choice span').append(' and more'.repeat(40))")
    tops = page.js(
        "[...document.querySelectorAll('.choice small')].map(e => e.getBoundingClientRect().top)"
    )
    assert len(tops) == 3
    assert len(set(tops)) == 1
