import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import ModelUnavailable
from segue.models.names import EMBEDDED_NAME, ModelRef, parse, parse_all


def nothing_exists(_: str) -> bool:
    return False


def ref(text: str) -> ModelRef:
    return parse(text, nothing_exists)


@pytest.mark.parametrize("text", ["", "  ", "default", EMBEDDED_NAME, "SmolLM2-135M-Instruct"])
def test_the_embedded_model_goes_by_several_names(text: str) -> None:
    assert ref(text).source == "embedded"
    assert ref(text).served_name == EMBEDDED_NAME


@pytest.mark.parametrize(
    ("text", "served"),
    [
        ("a.gguf", "a"),
        ("./models/Some-Model.Q4_0.gguf", "Some-Model.Q4_0"),
        ("/abs/with space.GGUF", "with-space"),
        ("~/m.gguf", "m"),
        ("../up/m.gguf", "m"),
        ("./no-suffix", "no-suffix"),
        ("C:\\models\\m.gguf", "m"),
        ("models/deep/m.gguf", "m"),
    ],
)
def test_paths(text: str, served: str) -> None:
    assert ref(text) == ModelRef("path", served, path=text)


def test_an_existing_file_wins_over_every_other_reading() -> None:
    for text in ("owner/repo", "default", "name=x.gguf"):
        assert parse(text, {text}.__contains__).path == text


@pytest.mark.parametrize(
    ("text", "repo", "file", "quant", "served"),
    [
        ("hf:o/r/m-Q8_0.gguf", "o/r", "m-Q8_0.gguf", "", "m-Q8_0"),
        ("hf:o/r/sub/m.gguf", "o/r", "sub/m.gguf", "", "m"),
        ("hf:o/r", "o/r", "", "", "o/r"),
        ("Qwen/Qwen2.5-0.5B-GGUF", "Qwen/Qwen2.5-0.5B-GGUF", "", "", "Qwen/Qwen2.5-0.5B-GGUF"),
        ("o/r:Q4_K_M", "o/r", "", "Q4_K_M", "o/r:Q4_K_M"),
    ],
)
def test_hub_names(text: str, repo: str, file: str, quant: str, served: str) -> None:
    got = ref(text)
    assert (got.source, got.repo, got.file, got.quant) == ("hub", repo, file, quant)
    assert got.served_name == served


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("https://huggingface.co/o/r", "o/r"),
        ("https://huggingface.co/o/r/", "o/r"),
        ("https://huggingface.co/o/r/tree/main", "o/r"),
        ("HTTPS://www.huggingface.co/o/r/blob/main/sub/m.gguf", "hf:o/r/sub/m.gguf"),
        ("https://hf.co/o/r/resolve/main/m.gguf?download=true", "hf:o/r/m.gguf"),
    ],
)
def test_an_address_of_hugging_face_is_its_repository_or_file(text: str, meant: str) -> None:
    """As copied from a browser. It was looked for on the disk, with one slash where two had been."""
    assert ref(text) == ref(meant)
    assert ref(f"mine={text}") == ref(f"mine={meant}")


def test_ollamas_name_of_a_repository_is_taken_and_answered_to() -> None:
    got = ref("hf.co/o/r:Q8_0")
    assert (got.repo, got.quant, got.names) == (
        "o/r",
        "Q8_0",
        ("o/r:Q8_0", "r:Q8_0", "hf.co/o/r:Q8_0"),
    )
    assert ref("huggingface.co/o/r").repo == "o/r"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("https://example.org/m.gguf", "is an address: download the file"),
        ("http://example.org/m.gguf?a=b", "is an address: download the file"),
        ("file:///m.gguf", "is an address: download the file"),
        ("https://huggingface.co/o/r/resolve/v1/m.gguf", "is of 'v1': what is fetched is of main"),
        ("https://huggingface.co/o", "is no Hugging Face name"),
    ],
)
def test_other_addresses_are_refused_as_such(text: str, words: str) -> None:
    with pytest.raises(ModelUnavailable, match=words):
        ref(text)


def test_a_served_name_can_be_given_for_any_form() -> None:
    assert ref("mine=default") == ModelRef("embedded", "mine")
    assert ref("mine=o/r:Q8_0") == ModelRef("hub", "mine", repo="o/r", quant="Q8_0")
    assert ref("org/mine=a=b.gguf") == ModelRef("path", "org/mine", path="a=b.gguf")
    assert ref("/data/a=b.gguf").path == "/data/a=b.gguf"


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "hf:only",
        "hf:o/r/../../etc/passwd.gguf",
        "hf:/etc/x.gguf",
        "hf:../r",
        "hf:o/..",
        "hf:o//m.gguf",
        "hf:o/r/m.safetensors",
        "hf:o/r/m.gguf:Q4_0",
        "hf:o/r\\..\\m.gguf",
        "o/r:",
        "o/r:../x",
        "a\0b.gguf",
        "=x.gguf",
        "name=",
        "bad name=x.gguf",
        ".gguf",
        "/",
    ],
)
def test_bad_names_say_what_would_be_right(text: str) -> None:
    with pytest.raises(ModelUnavailable):
        ref(text)


@given(st.text(alphabet="ab./\\:=~-%Q4_ \0hf", max_size=24))
def test_no_text_escapes_its_repository(text: str) -> None:
    try:
        got = ref(text)
    except ModelUnavailable:
        return
    assert got.served_name
    if got.source == "hub":
        parts = [*got.repo.split("/"), *got.file.split("/")]
        assert got.repo.count("/") == 1
        assert not {"..", "."} & set(parts)
        assert "\\" not in got.file


def test_no_models_means_the_embedded_one() -> None:
    assert [ref.source for ref in parse_all([], aliases=())] == ["embedded"]


def test_aliases_name_the_first_model_or_the_one_they_point_at() -> None:
    first, second = parse_all(["a.gguf", "b.gguf"], ["x", "y=b"], nothing_exists)
    assert first.names == ("a", "x")
    assert second.names == ("b", "y")


def test_chosen_names_displace_implied_ones() -> None:
    first, second, third = parse_all(["o/r", "p/r", "q=a.gguf"], ["r=q"], nothing_exists)
    assert (first.aliases, second.aliases, third.aliases) == ((), (), ("r",))
    first, second = parse_all(["o/r", "p/r"], [], nothing_exists)
    assert (first.aliases, second.aliases) == (("r",), ())


@pytest.mark.parametrize(
    ("models", "aliases"),
    [
        (["a.gguf", "d/a.gguf"], []),
        (["a.gguf"], ["x=nope"]),
        (["a.gguf", "b.gguf"], ["b"]),
        (["a.gguf", "b.gguf"], ["x=a", "x=b"]),
        (["a.gguf"], ["bad alias"]),
    ],
)
def test_clashing_names_are_refused(models: list[str], aliases: list[str]) -> None:
    with pytest.raises(ModelUnavailable):
        parse_all(models, aliases, nothing_exists)


def test_two_models_of_one_name_are_told_how_to_be_named() -> None:
    with pytest.raises(ModelUnavailable, match="another name: NAME=MODEL"):
        parse_all(["a=x.gguf", "a=y.gguf"], [], nothing_exists)
