import pytest
from starlette.types import Scope

from segue.errors import Forbidden, MalformedHttp, SetupError
from segue.server.admission.hosts import Hosts, is_loopback
from tests.server.admission.test_cors import scope


def host(name: bytes) -> Scope:
    return scope((b"host", name))


@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]", "a.localhost", "LOCALHOST"]
)
def test_loopback(name: str) -> None:
    assert is_loopback(name)


@pytest.mark.parametrize(
    "name", ["0.0.0.0", "192.168.0.1", "127.0.0.1.evil.com", "evil.com", "", "localhost.evil.com"]
)
def test_not_loopback(name: str) -> None:
    assert not is_loopback(name)


@pytest.mark.parametrize(
    "name", [b"localhost", b"127.0.0.1:8080", b"[::1]:8080", b"[::1]", b"LocalHost:1", b"box.lan"]
)
def test_hosts_that_pass_on_loopback(name: bytes) -> None:
    Hosts("127.0.0.1", ["box.lan"]).check(host(name))


@pytest.mark.parametrize(
    "name",
    [
        b"evil.com",
        b"evil.com:8080",
        b"127.0.0.1.evil.com",
        b"10.1.2.evil",
        b"a/?x=",
        b"x/health?",
        b"",
        b"\xff",
    ],
)
def test_a_page_that_points_its_own_name_at_us_is_refused(name: bytes) -> None:
    with pytest.raises(Forbidden):
        Hosts("127.0.0.1").check(host(name))


def test_elsewhere_any_host_will_do_unless_some_are_named() -> None:
    Hosts("0.0.0.0").check(host(b"anything.example"))
    named = Hosts("0.0.0.0", ["api.example"])
    named.check(host(b"API.example:443"))
    named.check(host(b"localhost"))
    with pytest.raises(Forbidden):
        named.check(host(b"other.example"))


@pytest.mark.parametrize("name", [b"10.1.2.3:8080", b"10.1.2.3", b"[fd00::7]:8080", b"[fd00::7]"])
@pytest.mark.parametrize("bound_to", ["127.0.0.1", "0.0.0.0"])
def test_a_probe_by_address_is_answered_although_names_are_chosen(
    bound_to: str, name: bytes
) -> None:
    """As kubelets and load balancers send it. Only a name can be made to resolve to this machine."""
    Hosts(bound_to, ["api.example"]).check(host(name))


def test_one_host_exactly() -> None:
    for wrong in (scope(), scope((b"host", b"localhost"), (b"host", b"localhost"))):
        with pytest.raises(MalformedHttp):
            Hosts("127.0.0.1").check(wrong)
    Hosts("127.0.0.1").check(scope(version="1.0"))


@pytest.mark.parametrize("name", ["http://x", "x:8080", "x/", "", "*", "a b"])
def test_what_no_host_can_be_equal_to_is_refused(name: str) -> None:
    with pytest.raises(SetupError, match="--allowed-host must be a name without scheme and port"):
        Hosts("127.0.0.1", [name])


def test_names_and_addresses_may_be_allowed() -> None:
    Hosts("127.0.0.1", ["example.org", "10.0.0.1", "[::1]", "my_host"])
