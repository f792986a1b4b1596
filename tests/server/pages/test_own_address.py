import re
from typing import Any

import pytest

from segue.server.pages.own_address import own_address
from tests.server.conftest import Live

HERE = ("127.0.0.1", 9000)


def scope(server: Any = HERE, **headers: str) -> dict[str, Any]:
    named = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    return {"scheme": "http", "server": server, "headers": named}


@pytest.mark.parametrize(
    ("request_", "address"),
    [
        (scope(host="127.0.0.1:9000"), "http://127.0.0.1:9000"),
        (scope(host="example.org"), "http://example.org"),
        (scope(host="[::1]:8080"), "http://[::1]:8080"),
        (scope(), "http://127.0.0.1:9000"),
        (scope(("::1", 9000)), "http://[::1]:9000"),
        (scope(("/run/segue.sock", None)), "http://localhost"),
        (scope(None), "http://localhost"),
    ],
)
def test_it_is_the_host_that_was_asked_or_where_the_server_listens(
    request_: dict[str, Any], address: str
) -> None:
    assert own_address(request_) == address


@pytest.mark.parametrize(
    "host",
    [
        "",
        "a b",
        "x;reboot",
        "$(reboot)",
        "`reboot`",
        "x'y",
        "<b>",
        "x\r\ny",
        "x:",
        "x:1a",
        "x/y",
        "ü",
    ],
)
def test_a_host_that_is_none_is_not_repeated(host: str) -> None:
    assert own_address(scope(host=host)) == "http://127.0.0.1:9000"


def test_nor_is_one_of_two() -> None:
    two = scope(host="a.org")
    two["headers"] *= 2
    assert own_address(two) == "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({"x_forwarded_proto": "https"}, "https"),
        ({"x_forwarded_proto": "http"}, "http"),
        ({"x_forwarded_proto": "javascript"}, "http"),
        ({"origin": "https://x.org"}, "https"),
        ({"origin": "https://y.org"}, "http"),
        ({"referer": "https://x.org/docs"}, "https"),
        ({"referer": "https://x.org.y.org/"}, "http"),
    ],
)
def test_a_proxy_may_speak_tls_to_the_client(headers: dict[str, str], scheme: str) -> None:
    assert own_address(scope(host="x.org", **headers)) == f"{scheme}://x.org"


def test_the_example_of_the_reference_has_it(live: Live) -> None:
    said = [
        re.findall(
            r"\S+/v1/completions(?=</code></pre>)", live.client.get("/docs", headers=given).text
        )
        for given in ({}, {"host": "localhost:81", "x-forwarded-proto": "https"})
    ]
    own = str(live.client.base_url).rstrip("/")
    assert said == [[f"{own}/v1/completions"], ["https://localhost:81/v1/completions"]]
