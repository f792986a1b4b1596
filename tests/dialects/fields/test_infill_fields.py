from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Operation, Stamp
from segue.dialects.llamacpp import INFILL
from segue.dialects.openai import OPENAI
from segue.errors import InvalidField
from segue.types import CompletionRequest, Infill, Prompt, Snippet

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=1, fingerprint="f")
ROOT = OPENAI.operations[0]
GAP = {"prompt": "a", "suffix": "b"}
EDITOR = {"input_prefix": "a", "input_suffix": "b"}
TOLD = {
    "infill_order": "spm",
    "infill_mode": "fim",
    "infill_repo": "proj",
    "infill_file": "c.py",
    "input_extra": [{"text": "x", "filename": "a.py", "time": 3}],
}
BOTH = pytest.mark.parametrize(("operation", "gap"), [(ROOT, GAP), (INFILL, EDITOR)])


def read(operation: Operation, body: dict[str, Any]) -> CompletionRequest:
    return operation.parse(body, STAMP).request


@BOTH
def test_what_is_told_of_a_gap_reaches_the_core(operation: Operation, gap: dict[str, Any]) -> None:
    suffix = Prompt(("b",), parse_special=False)
    assert read(operation, gap).infill == Infill(suffix=suffix)
    assert read(operation, gap | TOLD).infill == Infill(
        suffix=suffix,
        order="spm",
        mode="fim",
        repo="proj",
        filename="c.py",
        snippets=(Snippet("x", "a.py"),),
    )
    assert operation.parse(gap | TOLD, STAMP).ignored == ()


@BOTH
@pytest.mark.parametrize("word", ["auto", None])
def test_the_usual_is_the_same_as_nothing(
    operation: Operation, gap: dict[str, Any], word: str | None
) -> None:
    told: dict[str, Any] = {
        "infill_order": word,
        "infill_mode": word,
        "infill_repo": "",
        "input_extra": [],
    }
    assert read(operation, gap | told) == read(operation, gap)


def test_a_gap_that_nothing_follows_is_one() -> None:
    infill = read(ROOT, {"prompt": "a", "infill_file": "c.py"}).infill
    assert infill == Infill(suffix=Prompt((), parse_special=False), filename="c.py")
    assert read(ROOT, {"prompt": "a", "infill_order": "auto"}).infill is None


@BOTH
@pytest.mark.parametrize(
    ("told", "right"),
    [
        ({"infill_order": "PSM"}, "auto, psm or spm"),
        ({"infill_order": 1}, "auto, psm or spm"),
        ({"infill_mode": "best"}, "auto, fim or ranked"),
        ({"infill_repo": 1}, "a string"),
        ({"infill_file": "f" * 1025}, "at most 1024 characters"),
        ({"input_extra": [{"filename": "a"}]}, "an object with a text"),
        ({"input_extra": "a"}, "a list"),
        ({"infill_order": "psm", "infill_mode": "ranked"}, "only a model's own tokens"),
    ],
)
def test_what_would_be_right(
    operation: Operation, gap: dict[str, Any], told: dict[str, Any], right: str
) -> None:
    with pytest.raises(InvalidField, match=right) as caught:
        read(operation, gap | told)
    assert caught.value.param == next(iter(told))
    assert next(iter(told)) in caught.value.message


@BOTH
def test_best_of_is_how_many_are_ranked(operation: Operation, gap: dict[str, Any]) -> None:
    """One candidate is not eight, and a search may be streamed: it is told once it is over."""
    assert read(operation, gap).best_of is None
    assert read(operation, {**gap, "best_of": 1}).best_of == 1
    assert read(operation, {**gap, "best_of": 4, "stream": True}).best_of == 4
    with pytest.raises(InvalidField, match="at least n"):
        read(operation, {**gap, "n": 3, "best_of": 2})


FILLING = {
    f"{dialect.name}{operation.path}": operation
    for dialect in DIALECTS
    for operation in dialect.operations
    if "suffix" in operation.table.known and dialect.name != "llamafile"
}


@pytest.mark.parametrize("name", FILLING)
def test_a_gap_may_be_at_the_start_of_a_file(name: str) -> None:
    """Editors send an empty prompt then."""
    body = {"model": "m", "prompt": "", "suffix": "print(x)"}
    request = read(FILLING[name], body)
    assert [prompt.parts for prompt in request.prompts] == [("",)]
    assert request.infill is not None


def test_an_editor_has_a_text_there_too() -> None:
    """An empty one gets BOS, where nothing at all would be no prompt."""
    request = read(INFILL, {"input_prefix": "", "input_suffix": "print(x)"})
    assert [prompt.parts for prompt in request.prompts] == [("",)]


def test_each_prompt_may_be_such_a_start() -> None:
    request = read(ROOT, {"prompt": ["", "a"], "suffix": "b"})
    assert [prompt.parts for prompt in request.prompts] == [("",), ("a",)]


@pytest.mark.parametrize(
    ("prompt", "named"), [("", "prompt"), ([""], "prompt"), (["a", ""], "prompt[1]")]
)
@pytest.mark.parametrize("suffix", [{}, {"suffix": ""}, {"suffix": None}])
def test_nothing_continues_an_empty_text(prompt: Any, named: str, suffix: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as refused:
        read(ROOT, {"prompt": prompt, **suffix})
    assert refused.value.param == "prompt"
    assert refused.value.message.startswith(f"{named} must be a non-empty string")
