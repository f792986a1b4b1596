"""One browser for all tests of the page, and a server with the fake runner behind it."""

from collections.abc import Callable, Iterator

import pytest

from segue.runners.fake import FakeLoader
from tests.playground.browser import CHROMIUM, Chromium, Page, chromium
from tests.support.live import Live

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or set SEGUE_CHROMIUM")
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def served() -> Iterator[Live]:
    with Live(FakeLoader()) as live:
        yield live


@pytest.fixture
def page(browser: Chromium, served: Live) -> Iterator[Page]:
    """The page, open on a large screen. It must not have complained, nor asked anybody else."""
    with browser.page() as tab:
        tab.screen(1280, 860)
        tab.open(served.url)
        yield tab
        assert tab.errors == []
        assert {url for url in tab.requests if not url.startswith((served.url, "blob:"))} == set()
