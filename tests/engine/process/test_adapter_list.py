"""Which adapters a request gets, by its model's name, its list, or what the server applies."""

import pytest

from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.fleet import Fleet, Member
from segue.errors import InvalidField, UnknownModel
from segue.types import Adapter, ServedAdapter

SERVED = (
    ServedAdapter("sql", "sql.gguf", scale=0.5),
    ServedAdapter("chat", "chat.gguf"),
    ServedAdapter("style", "style.gguf", applied=0.25),
)


@pytest.fixture
def adapters() -> AdapterList:
    return AdapterList(SERVED, has_choice=True)


def test_a_name_means_that_adapter_alone_at_its_own_scale(adapters: AdapterList) -> None:
    assert adapters.settle("sql", None) == (Adapter("sql", 0.5),)


def test_the_base_gets_what_the_server_applies(adapters: AdapterList) -> None:
    assert adapters.settle("base", None) == (Adapter("style", 0.25),)
    adapters.apply((Adapter(0, 2.0), Adapter(1)))
    assert adapters.settle("base", None) == (Adapter("sql", 2.0), Adapter("chat", 1.0))
    assert adapters.settle("style", None) == (Adapter("style", 1.0),)
    adapters.apply(())
    assert adapters.settle("base", None) == ()


def test_a_list_is_taken_in_the_servers_order_and_leaves_out_what_it_does_not_name(
    adapters: AdapterList,
) -> None:
    assert adapters.settle("base", (Adapter(2, -1.0), Adapter("sql"))) == (
        Adapter("sql", 0.5),
        Adapter("style", -1.0),
    )
    assert adapters.settle("base", (Adapter(1, 0.0),)) == ()
    assert adapters.settle("base", ()) == ()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ((Adapter(3, 1.0),), "ids are 0 to 2"),
        ((Adapter(-1, 1.0),), "no adapter -1"),
        ((Adapter("other"),), "served: sql, chat, style"),
        ((Adapter(0, float("nan")),), "finite"),
    ],
)
def test_what_is_not_there_is_refused_by_the_fields_name(
    adapters: AdapterList, wanted: tuple[Adapter, ...], words: str
) -> None:
    with pytest.raises(InvalidField, match=words) as caught:
        adapters.settle("base", wanted)
    assert caught.value.param == "lora"
    with pytest.raises(InvalidField):
        adapters.apply(wanted)
    assert adapters.served == list(SERVED)


def test_a_list_beside_an_adapters_name_is_refused(adapters: AdapterList) -> None:
    with pytest.raises(InvalidField, match="together with the model 'sql'"):
        adapters.settle("sql", (Adapter(1, 1.0),))


async def _never() -> object:
    raise NotImplementedError


def test_adapters_are_served_names_of_their_model(adapters: AdapterList) -> None:
    fleet = Fleet([Member("base", ("b",), _never, adapters)])  # type: ignore[arg-type]
    assert fleet.names == ["base", "b", "sql", "chat", "style"]
    assert fleet.resolve("sql") == "base"
    assert fleet.settle_adapters("sql", None) == (Adapter("sql", 0.5),)
    with pytest.raises(UnknownModel):  # a misspelt adapter is not the base
        fleet.resolve("sq")
    unnamed = AdapterList(SERVED)
    fleet = Fleet([Member("base", (), _never, unnamed)])  # type: ignore[arg-type]
    assert fleet.resolve("gpt-3.5-turbo") == "base"
