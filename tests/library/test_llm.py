"""The library over the fake runner: the same engine, worker and tables as the server's."""

import asyncio
import math
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segue import LLM
from segue.commands.options import _RUNNING
from segue.config import TABLE
from segue.dialects.openai import OPENAI
from segue.errors import EngineFault, InvalidField, SetupError
from segue.library.options import Options, Text
from segue.library.settings import FOREIGN, SETTINGS, checked
from segue.runners.fake import FakeLoader
from tests.support.live import Live
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(runner="fake") as llm:
        yield llm


def test_a_completion(llm: LLM) -> None:
    answer = llm.complete("The sea", max_tokens=8, seed=3, logprobs=2)
    assert str(answer) == answer.text
    assert len(answer.tokens) == len(answer.choices[0].scores) == 8
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.prompt_tokens == 7
    assert answer.seed == 3


def test_it_gives_what_the_server_gives(llm: LLM) -> None:
    with Live(FakeLoader()) as live:
        body = {"prompt": "The sea", "max_tokens": 20, "seed": 9, "n": 3, "top_p": 0.9}
        theirs = live.client.post("/v1/completions", json=body).json()
    ours = llm.complete("The sea", max_tokens=20, seed=9, n=3, top_p=0.9)
    assert [choice.text for choice in ours.choices] == [
        choice["text"] for choice in theirs["choices"]
    ]


def test_a_seed_that_was_drawn_gives_the_same_again(llm: LLM) -> None:
    first = llm.complete("x", max_tokens=12)
    assert llm.complete("x", max_tokens=12, seed=first.seed).tokens == first.tokens
    assert llm.complete("x", max_tokens=12).seed != first.seed


def test_a_stream_is_the_same_answer_in_pieces(llm: LLM) -> None:
    pieces = list(llm.stream("The sea", max_tokens=12, seed=3))
    whole = llm.complete("The sea", max_tokens=12, seed=3)
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == whole.text


def test_a_wrong_option_of_a_stream_is_told_at_the_call(llm: LLM) -> None:
    """It was told with the first piece, far from the mistake, or never."""
    for stream in (llm.stream, llm.astream):
        with pytest.raises(InvalidField, match="temperature"):
            stream("x", temperature=-1)
        with pytest.raises(TypeError, match="did you mean max_tokens"):
            stream("x", max_token=1)  # type: ignore[call-arg]


def test_a_stream_that_is_left_stops_the_model(llm: LLM) -> None:
    stream = llm.stream("x", max_tokens=4000, ignore_eos=True)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert llm.complete("y", max_tokens=1).tokens


ENDLESS: Options = {"max_tokens": -1, "ignore_eos": True}


@pytest.fixture
def endless() -> Iterator[LLM]:
    """Whose answers go on for minutes."""
    with LLM(runner="fake", context_length=1_000_000) as llm:
        yield llm


def is_idle(llm: LLM) -> bool:
    return llm._thread.engine.is_idle


def test_a_call_that_is_interrupted_stops_the_model(
    endless: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook the program goes on after Ctrl-C, and the answer went on being computed."""
    run = endless._thread.run

    def interrupted(work: typing.Any) -> typing.Any:
        running = run(work)

        def wait() -> None:
            wait_until(lambda: not is_idle(endless))
            raise KeyboardInterrupt

        running.result = wait  # type: ignore[method-assign, assignment]
        return running

    monkeypatch.setattr(endless._thread, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        endless.complete("x", **ENDLESS)
    wait_until(lambda: is_idle(endless))


def test_where_one_of_a_batch_fails_the_others_stop(endless: LLM) -> None:
    with pytest.raises(InvalidField, match="token id"):
        endless.complete_batch(["x", [10**6]], **ENDLESS)
    wait_until(lambda: is_idle(endless))


def test_a_batch_is_each_prompt_alone(llm: LLM) -> None:
    prompts: list[Text] = ["one", "two", [104, 105]]
    together = llm.complete_batch(prompts, max_tokens=6, seed=1)
    assert [each.text for each in together] == [
        llm.complete(prompt, max_tokens=6, seed=1).text for prompt in prompts
    ]


def test_a_gap(llm: LLM) -> None:
    answer = llm.infill("def f(", "):\n    return 1", max_tokens=6, seed=1)
    assert len(answer.tokens) == 6


def test_scores(llm: LLM) -> None:
    score = llm.score("abc")
    assert [token.logprob is None for token in score.tokens] == [True, False, False]
    assert score.logprob == sum(token.logprob or 0 for token in score.tokens)
    assert score.perplexity == math.exp(-score.logprob / 2)
    assert math.isnan(llm.score("a").perplexity)
    assert llm.score_batch(["abc", [97, 98, 99]]) == [score, score]


def test_constraints(llm: LLM) -> None:
    assert llm.complete("x", guided_choice=["yes", "no"], seed=1).text in ("yes", "no")
    number = llm.complete("x", json_schema={"type": "integer"}, max_tokens=99, seed=1).text
    assert int(number) is not None


def test_echo_and_tokens(llm: LLM) -> None:
    assert llm.complete("abc", echo=True, max_tokens=1, seed=1).text.startswith("abc")
    assert llm.detokenize(llm.tokenize("höre")) == "höre"
    assert llm.info.runner == "fake"


def test_with_an_event_loop(llm: LLM) -> None:
    async def main() -> None:
        one, several, score, gap = await asyncio.gather(
            llm.acomplete("x", seed=1),
            llm.acomplete_batch(["x", "y"], seed=1),
            llm.ascore("abc"),
            llm.ainfill("a", "b", seed=1),
        )
        assert one.text == several[0].text == llm.complete("x", seed=1).text
        assert score.num_scored == 2
        assert gap.text
        texts = [piece.text async for piece in llm.astream("x", seed=1)]
        assert "".join(texts) == one.text

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "word"),
    [({"temperature": 9}, "temperature"), ({"n": 0}, "n"), ({"stop": 3}, "stop")],
)
def test_a_wrong_option_is_named(llm: LLM, options: typing.Any, word: str) -> None:
    with pytest.raises(InvalidField, match=word):
        llm.complete("x", **options)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("temprature", r"there is no option temprature; did you mean temperature\?"),
        ("xyzzy", "there is no option xyzzy, or it has no effect"),
        ("stream", "no option stream: the method stream"),  # these two had no effect
        ("model", "no option model: an LLM has one model"),
    ],
)
def test_an_unknown_option_is_a_type_error(llm: LLM, option: str, words: str) -> None:
    options: typing.Any = {option: 1}
    with pytest.raises(TypeError, match=words):
        llm.complete("x", **options)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("generate", "an LLM has no generate; use complete, or complete_batch"),
        ("chat", "there is no chat here"),
        ("xyzzy", "an LLM has no xyzzy$"),
    ],
)
def test_a_method_of_another_library_is_answered_with_ours(llm: LLM, name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(llm, name)
    assert not hasattr(llm, name)


def test_an_option_whose_step_does_not_act_is_a_type_error(llm: LLM) -> None:
    with pytest.raises(TypeError, match="top_p, or it has no effect"):
        llm.complete("x", samplers=["top_k"], top_p=0.5)


def test_ids_may_be_an_array_and_bytes_are_none(llm: LLM) -> None:
    """Bytes were taken for token ids, in silence."""
    ids: typing.Any = np.array([104, 105], np.int32)
    seed: typing.Any = np.int64(1)
    assert llm.complete(ids, seed=seed).text == llm.complete([104, 105], seed=1).text
    wrong: typing.Any
    for wrong in (b"hi", bytearray(b"hi"), memoryview(b"hi")):
        with pytest.raises(InvalidField, match="not bytes"):
            llm.complete(wrong)


def test_several_prompts_are_a_batch(llm: LLM) -> None:
    """Of the answers to a list of texts, `text` was the first."""
    several: typing.Any = ["one", "two"]
    with pytest.raises(InvalidField, match="complete_batch takes several"):
        llm.complete(several)
    assert len(llm.complete_batch(several, max_tokens=2)) == 2


def test_options_are_taken_as_their_types_say(llm: LLM) -> None:
    """A tuple of stops was refused, a float of NumPy was no integer, and a bias by number no subscript."""
    options: typing.Any = {"temperature": np.float64(0), "logit_bias": {120: 100.0}}
    ids: typing.Any = np.array([104, 105])
    num_top: typing.Any = np.int64(1)
    assert llm.complete("a", stop=("xxx",), max_tokens=9, **options).text == ""
    assert llm.detokenize(ids) == "hi"
    assert llm.score("abc", num_top=num_top) == llm.score("abc", num_top=1)


def test_one_text_is_no_batch_of_its_characters(llm: LLM) -> None:
    for ask in (llm.complete_batch, llm.score_batch):
        with pytest.raises(InvalidField, match="must be a list of texts, not one text"):
            ask("abc")


def test_a_stream_begins_with_the_prompt_where_the_answer_does(llm: LLM) -> None:
    pieces = list(llm.stream("abc", echo=True, max_tokens=2, seed=1, n=2))
    whole = llm.complete("abc", echo=True, max_tokens=2, seed=1, n=2)
    texts = ["".join(each.text for each in pieces if each.choice == i) for i in (0, 1)]
    assert texts == [choice.text for choice in whole.choices]


def test_every_option_is_a_field_of_the_table_under_its_first_name() -> None:
    known = {row.name: row for row in OPENAI.operations[0].table.rows}
    hints = typing.get_type_hints(Options)
    assert hints.keys() <= known.keys()
    assert all(known[name].target for name in hints)
    sampling = {row.name for row in known.values() if row.target.startswith("sampling.")}
    assert sampling <= hints.keys()


def test_what_is_closed_says_so() -> None:
    llm = LLM(runner="fake")
    llm.close()
    llm.close()
    with pytest.raises(EngineFault, match="closed"):
        llm.complete("x")


SCRIPT = """
from segue import LLM
llm = LLM(runner="fake")
print(len(llm.complete("x", max_tokens=4, seed=1).tokens), llm._thread.engine._process.pid)
"""


def test_a_plain_script_needs_no_guard_and_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    count, pid = done.stdout.split()
    assert count == "4"
    assert not Path(f"/proc/{pid}").exists()
    assert done.stderr == ""


def test_importing_the_package_imports_little() -> None:
    code = "import sys, segue; print(len([m for m in sys.modules if m.startswith('segue')]), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["1", "False"]


def test_a_text_that_is_none_is_refused_before_the_worker_sees_it(llm: LLM) -> None:
    wrong: typing.Any
    for wrong in (3, None, [1.5]):
        with pytest.raises(InvalidField, match="prompt"):
            llm.complete(wrong)
        with pytest.raises(InvalidField, match="prompt"):
            llm.score(wrong)
    for wrong in (3, None, b"x"):
        with pytest.raises(TypeError, match="tokenize takes a text"):
            llm.tokenize(wrong)
    with pytest.raises(TypeError, match="detokenize takes token ids"):
        llm.detokenize(["a"])  # type: ignore[list-item]
    assert llm.tokenize("abc")


def test_an_unknown_setting_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(SetupError, match=r"there is no setting 'thread'; did you mean threads\?"):
        LLM(runner="fake", thread=3)


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ({"port": 9000}, "an LLM has: lora"),
        ({"defaults": ["temperature=0"]}, "an LLM has: lora"),
        ({"models": ["a.gguf"]}, "the first argument"),
        ({"max_model_len": 4096}, "did you mean context_length?"),
        ({"tensor_parallel_size": 2}, 'vllm_options=["tensor_parallel_size=..."]'),
        ({"temperature": 0.5}, "llm.complete(PROMPT, temperature=...)"),
    ],
)
def test_a_setting_without_effect_is_refused(setting: dict[str, Any], advice: str) -> None:
    """Those of the server were taken and did nothing: `defaults` looked as if answers kept to them."""
    with pytest.raises(SetupError) as error:
        LLM(runner="fake", **setting)
    assert advice in error.value.message


def test_a_setting_may_be_a_path_or_a_number_of_another_library(tmp_path: Path) -> None:
    """`--cache-dir must be a path, not PosixPath`."""
    LLM(runner="fake", cache_dir=tmp_path, threads=np.int64(1)).close()
    assert checked({"lora": tmp_path / "a,b.gguf"}) == {"lora": [str(tmp_path / "a,b.gguf")]}
    assert checked({"lora": [tmp_path]}) == {"lora": [str(tmp_path)]}
    with pytest.raises(SetupError, match="threads cannot be a value of type object"):
        checked({"threads": object()})
    wrong: typing.Any = None
    with pytest.raises(TypeError):
        LLM(wrong)


def test_the_settings_are_those_of_the_server() -> None:
    assert set(_RUNNING) < set(SETTINGS) < {row.name for row in TABLE}
    assert not set(SETTINGS) & set(FOREIGN)


def test_a_number_of_alternatives_is_not_negative(llm: LLM) -> None:
    """The worker failed to prepare it, with a traceback in the log."""
    with pytest.raises(InvalidField, match="num_top must be 0 or more, not -1"):
        llm.score("abc", num_top=-1)


def test_a_number_that_is_none_ends_no_worker(llm: LLM) -> None:
    wrong: typing.Any
    for wrong in (2.5, "2", None):
        with pytest.raises(InvalidField, match="num_top must be a whole number"):
            llm.score("abc", num_top=wrong)
    for wrong in (-1, 10**30):
        with pytest.raises(InvalidField, match="tokens must be from 0 to"):
            llm.detokenize([wrong])
        with pytest.raises(InvalidField, match="num_top must be 0 or more"):
            llm.score("abc", num_top=wrong)
    assert llm.score("abc").num_scored == 2


def test_half_a_character_is_a_wrong_text_and_ends_nothing(llm: LLM) -> None:
    for ask in (llm.complete, llm.score, llm.tokenize):
        with pytest.raises(InvalidField, match="half a character"):
            ask("caf\udce9")
    assert llm._thread.engine.is_idle, "a call that could not be sent is no open one"
    assert llm.complete("a", max_tokens=2, ignore_eos=True).usage.completion_tokens == 2
