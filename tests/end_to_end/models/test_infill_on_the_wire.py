"""Gaps as clients send them, over a real socket: real tokens and weights, with and without FIM tokens."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue import config
from segue.engine.seam import Loaded
from segue.runners.cpu.loader import CpuLoader
from segue.runners.fake import FakeLoader, FakeVocab
from segue.runners.llama.vocab import LlamaVocab
from tests.support.brake import BrakedLoader, braked
from tests.support.live import Live, Served, serve
from tests.support.models.tiny_gguf import write_tiny_gguf

BEFORE, TYPED, AFTER = "def area(w, h):\n", "    return w", "\n\nprint(area(2, 3))\n"
ROOT = "/v1/completions"
EDITOR: dict[str, Any] = {"input_prefix": BEFORE, "input_suffix": AFTER, "prompt": TYPED}
LLAMA_VIM: dict[str, Any] = {
    "id_slot": 0,
    "input_prefix": BEFORE,
    "input_suffix": AFTER,
    "input_extra": [
        {"filename": "shapes.py", "text": "import math\nPI = math.pi\n", "time": 1731000000}
    ],
    "prompt": TYPED,
    "n_predict": 16,
    "stop": [],
    "n_indent": 4,
    "top_k": 40,
    "top_p": 0.9,
    "samplers": ["top_k", "top_p", "infill"],
    "stream": False,
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 1000,
    "model": "",
    "response_fields": [
        "content",
        "timings/prompt_n",
        "timings/prompt_ms",
        "timings/prompt_per_token_ms",
        "timings/prompt_per_second",
        "timings/predicted_n",
        "timings/predicted_ms",
        "timings/predicted_per_token_ms",
        "timings/predicted_per_second",
        "truncated",
        "tokens_cached",
    ],
}
WARM_UP = LLAMA_VIM | {"n_predict": 0, "samplers": [], "response_fields": [""]}


def loader(path: Path) -> CpuLoader:
    """Answers are compared with each other, so the runner must be one that gives them again."""
    return CpuLoader(str(path), "tiny", threads=1, cache_dir=str(config.load({}).cache_dir))


@pytest.fixture(scope="module")
def fim(tiny_gguf: Path) -> Iterator[Served]:
    with serve(loader(tiny_gguf), "tiny") as served:
        yield served


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = write_tiny_gguf(tmp_path_factory.mktemp("models") / "plain.gguf", fim=False)
    with serve(loader(path), "tiny") as served:
        yield served


@pytest.fixture(params=["fim", "plain"])
def either(request: pytest.FixtureRequest) -> Served:
    served: Served = request.getfixturevalue(request.param)
    return served


def ask(served: Served, path: str, body: dict[str, Any]) -> httpx2.Response:
    answer = served.client.post(path, json={"seed": 7, **body})
    assert answer.status_code == 200, answer.text
    return answer


# --- the order ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vocab(tiny_gguf: Path) -> Iterator[LlamaVocab]:
    vocab = LlamaVocab(tiny_gguf)
    yield vocab
    vocab.close()


def told(**fields: Any) -> dict[str, Any]:
    body = {"prompt": BEFORE + TYPED, "suffix": AFTER, "return_token_ids": True, "max_tokens": 1}
    return body | fields


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, f"<|fim_prefix|>{BEFORE}{TYPED}<|fim_suffix|>{AFTER}<|fim_middle|>"),
        (
            {"infill_order": "spm"},
            f"<|fim_suffix|>{AFTER}<|fim_prefix|>{BEFORE}{TYPED}<|fim_middle|>",
        ),
        (
            {"suffix": AFTER * 3},
            f"<|fim_prefix|>{BEFORE}<|fim_suffix|>{AFTER * 3}<|fim_middle|>{TYPED}",
        ),
        (
            {"suffix": AFTER * 3, "infill_order": "psm"},
            f"<|fim_prefix|>{BEFORE}{TYPED}<|fim_suffix|>{AFTER * 3}<|fim_middle|>",
        ),
        (
            {
                "infill_repo": "shapes",
                "infill_file": "area.py",
                "input_extra": [{"text": "PI = 3\n", "filename": "pi.py"}],
            },
            "<|repo_name|>shapes\n<|file_sep|>pi.py\nPI = 3\n<|file_sep|>area.py\n"
            f"<|fim_prefix|>{BEFORE}{TYPED}<|fim_suffix|>{AFTER}<|fim_middle|>",
        ),
    ],
    ids=["as the model knows it", "suffix first", "typed line last", "prefix first", "repository"],
)
def test_the_order_is_the_requests(
    fim: Served, vocab: LlamaVocab, fields: dict[str, Any], expected: str
) -> None:
    answer = ask(fim, ROOT, told(**fields))
    tokens = answer.json()["choices"][0]["prompt_token_ids"]
    assert b"".join(map(vocab.piece, tokens)).decode() == expected
    assert answer.headers["x-segue-infill"] == "fim"
    assert "x-segue-ignored" not in answer.headers


def test_an_editor_may_set_it_too(fim: Served) -> None:
    """The order changes what the model reads, so a greedy answer differs."""
    body = EDITOR | {"n_predict": 12, "temperature": 0}
    texts = {
        order: ask(fim, "/infill", body | {"infill_order": order}).json()["content"]
        for order in ("psm", "spm")
    }
    assert texts["psm"] != texts["spm"]


@pytest.mark.parametrize(
    ("path", "body"), [(ROOT, told()), ("/infill", EDITOR)], ids=["root", "infill"]
)
def test_a_model_without_fim_tokens_refuses_an_order(
    plain: Served, path: str, body: dict[str, Any]
) -> None:
    answer = plain.client.post(path, json=body | {"infill_order": "spm"})
    assert answer.status_code == 400
    assert "infill_order must be left out: this model has no tokens" in answer.text
    answer = plain.client.post(path, json=body | {"infill_mode": "fim"})
    assert answer.status_code == 501


def test_a_model_with_fim_tokens_may_be_told_to_rank(fim: Served) -> None:
    answer = ask(fim, ROOT, told(infill_mode="ranked", max_tokens=3, best_of=2))
    assert answer.headers["x-segue-infill"] == "ranked"
    assert answer.json()["usage"]["completion_tokens"] <= 2 * 4


def test_a_server_for_fim_only_refuses_to_rank(tiny_gguf: Path) -> None:
    with serve(loader(tiny_gguf), "tiny", fim_only=True) as served:
        assert ask(served, ROOT, told()).headers["x-segue-infill"] == "fim"
        answer = served.client.post(ROOT, json=told(infill_mode="ranked"))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "infill_mode"


# --- what fitted --------------------------------------------------------------------------------


def test_what_did_not_fit_is_reported(fim: Served) -> None:
    body = {"input_prefix": "a\n" * 400, "input_suffix": "\nb" * 400, "n_predict": 4}
    extra = [{"text": "c" * 50, "filename": "c.py"}]
    answer = ask(fim, "/infill", body | {"input_extra": extra})
    infill = answer.json()["infill"]
    assert infill["way"] == "fim"
    kept = {name: infill[name]["kept"] for name in ("prefix", "suffix", "extra")}
    given = {name: infill[name]["given"] for name in kept}
    assert given == {"prefix": 800, "suffix": 800, "extra": 50 + len("?c.py\n\n")}
    assert 0 < kept["suffix"] < kept["prefix"] < 800
    assert kept["extra"] == 0
    assert sum(kept.values()) < 512, "the model's whole context"
    words = ", ".join(f"{name}={kept[name]}/{given[name]}" for name in kept)
    assert answer.headers["x-segue-infill-kept"] == words
    dropped = sum(given.values()) - sum(kept.values())
    assert answer.headers["x-segue-truncated"] == f"{dropped}"
    assert answer.json()["truncated"] is True


def test_what_fitted_is_reported_too(either: Served) -> None:
    answer = ask(either, ROOT, {"prompt": "abcd", "suffix": "xyz", "max_tokens": 2})
    is_fim = answer.headers["x-segue-infill"] == "fim"
    assert answer.headers["x-segue-infill-kept"] == "prefix=4/4" + ", suffix=3/3" * is_fim
    assert "x-segue-truncated" not in answer.headers


def test_context_counts_where_nothing_follows(plain: Served) -> None:
    """A model without FIM tokens simply goes on, but from all that it was told."""
    body = EDITOR | {"input_suffix": "", "n_predict": 1}
    few = ask(plain, "/infill", body)
    assert "x-segue-infill" not in few.headers
    more = ask(plain, "/infill", body | {"input_extra": [{"text": "c\n", "filename": "c.py"}]})
    headings = "--- c.py ---\nc\n--- untitled ---\n"
    num_more = more.json()["tokens_evaluated"] - few.json()["tokens_evaluated"]
    assert 0 < num_more <= len(headings)


# --- progress -----------------------------------------------------------------------------------


class PlainVocab(FakeVocab):
    fim = None


class PlainLoader(BrakedLoader):
    def __call__(self) -> Loaded:
        runner, _, info, *_ = super().__call__()
        return Loaded(runner, PlainVocab(), info)


@pytest.fixture(scope="module")
def brake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("searching") / "brake"


@pytest.fixture(scope="module")
def searching(brake: Path) -> Iterator[Live]:
    with Live(PlainLoader(brake=str(brake))) as live:
        yield live


@pytest.mark.parametrize("path", [ROOT, "/infill"])
def test_a_search_tells_how_far_it_is(searching: Live, brake: Path, path: str) -> None:
    """As comments, which clients of event streams pass by, and all of them before the answer.

    A server that is busy tells of several steps at once, so they are slow until enough was told.
    """
    body = EDITOR | {"suffix": AFTER, "max_tokens": 24, "seed": 1, "stream": True}
    with ExitStack() as slow:
        slow.enter_context(braked(brake))
        with searching.client.stream("POST", path, json=body) as answer:
            assert answer.headers["x-segue-infill"] == "ranked"
            pieces, text = answer.iter_text(), ""
            while text.count(": infill:") < 3:
                text += next(pieces)
            slow.close()
            blocks = (text + "".join(pieces)).split("\n\n")
    kinds = [block.partition(" ")[0] for block in blocks if block]
    num_notes = kinds.count(":")
    assert num_notes >= 3
    assert kinds == [":"] * num_notes + ["data:"] * (len(kinds) - num_notes)
    told = [re.fullmatch(r": infill: (\d+) tokens drawn, (\d+) places tried", b) for b in blocks]
    counts = [(int(found[1]), int(found[2])) for found in told if found]
    assert len(counts) == num_notes
    assert counts == sorted(counts)
    assert counts[-1][1] > 0


def test_lines_of_json_have_no_comments(searching: Live) -> None:
    body = {"model": "fake", "prompt": "ab", "suffix": "c", "options": {"num_predict": 8}}
    answer = searching.client.post("/api/generate", json=body)
    assert answer.headers["x-segue-infill"] == "ranked"
    lines = answer.text.splitlines()
    assert [json.loads(line)["done"] for line in lines] == [False] * (len(lines) - 1) + [True]


# --- together with the rest ---------------------------------------------------------------------


def streamed(served: Served, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = ask(served, ROOT, body | {"stream": True})
    rows = [row.removeprefix("data: ") for row in answer.text.splitlines() if row[:1] == "d"]
    assert rows.pop() == "[DONE]"
    return [json.loads(row)["choices"][0] for row in rows]


def test_choices_constraint_stop_and_logprobs_in_one_stream(either: Served) -> None:
    body = told(n=2, max_tokens=12, grammar="root ::= [a-y]+", stop=["e"], logprobs=2)
    del body["return_token_ids"]
    chunks = streamed(either, body)
    whole = ask(either, ROOT, body).json()["choices"]
    for index in range(2):
        own = [chunk for chunk in chunks if chunk["index"] == index]
        text = "".join(chunk["text"] for chunk in own)
        assert re.fullmatch("[a-df-y]*", text)
        tokens = [
            token for chunk in own if chunk["logprobs"] for token in chunk["logprobs"]["tokens"]
        ]
        assert "".join(tokens).startswith(text), "the token that held the stop was drawn too"
        assert own[-1]["finish_reason"] in ("stop", "length")
        assert whole[index]["text"] == text, "streamed or not"


def test_the_best_of_several_is_streamed_once_it_is_known(either: Served) -> None:
    """Without a gap this is refused: OpenAI's clients do not expect the wait."""
    body = told(best_of=3, max_tokens=6)
    whole = ask(either, ROOT, body).json()["choices"][0]["text"]
    assert "".join(chunk["text"] for chunk in streamed(either, body)) == whole


@pytest.mark.parametrize("loader", [FakeLoader(), PlainLoader()], ids=["fim", "ranked"])
def test_every_request_that_the_next_keystroke_drops_is_freed(loader: FakeLoader) -> None:
    """Left after the first thing heard, or at once."""
    num_keys = 40
    with Live(loader) as live:
        for key in range(num_keys):
            typed = EDITOR | {"prompt": TYPED + "x" * key, "n_predict": 2000, "stream": True}
            with live.client.stream("POST", "/infill", json=typed) as answer:
                if key % 2:
                    next(answer.iter_lines())
        live.wait_until_idle()
        stats = live.stats()
        assert stats.slots_used == 0
        assert stats.cancelled + stats.finished == num_keys
        assert stats.cancelled > 0
        assert stats.failed == 0
        assert stats.prefilled_tokens < num_keys * 40


# --- editors ------------------------------------------------------------------------------------


def test_llama_vim_gets_what_it_reads(either: Served) -> None:
    answer = ask(either, "/infill", LLAMA_VIM)
    assert re.search(r'"content"\s*:"', answer.text), "or it drops the answer without a word"
    fields = answer.json()
    assert list(fields) == LLAMA_VIM["response_fields"], "by flat keys, and nothing else"
    assert isinstance(fields.pop("content"), str)
    assert fields.pop("truncated") is False
    assert all(type(value) in (int, float) and value >= 0 for value in fields.values())
    assert fields["timings/predicted_n"] > 0
    is_timed = fields["timings/predicted_n"] > 1  # the first token comes with the prompt
    assert (fields["timings/predicted_per_second"] > 0) is is_timed
    assert fields["tokens_cached"] > len(BEFORE) // 2


def test_its_warm_up_fills_the_cache_for_the_next_request(fim: Served) -> None:
    """Sent while nobody types. What it reads is not read again."""
    fresh = {"input_prefix": "# a file that nobody has opened before\n" + BEFORE}
    assert ask(fim, "/infill", WARM_UP | fresh).json() == {}
    answer = ask(fim, "/infill", LLAMA_VIM | fresh)
    assert answer.json()["timings/prompt_n"] <= 2


@pytest.mark.parametrize("count", [1, 3])
def test_llama_vscode_gets_an_array_for_several(either: Served, count: int) -> None:
    body = LLAMA_VIM | {"n_cmpl": count, "lora": [{"id": 0, "scale": 1.0}], "model": "tiny"}
    answer = ask(either, "/infill", body)
    parsed = answer.json()
    entries = parsed if count > 1 else [parsed]
    assert type(parsed) is (list if count > 1 else dict)
    assert len(entries) == count
    assert all(isinstance(entry["content"], str) for entry in entries)
    assert "lora" in answer.headers["x-segue-ignored"]


def test_llama_vscode_can_explain_a_refusal(either: Served) -> None:
    answer = either.client.post("/infill", json=LLAMA_VIM | {"n_cmpl": 100_000})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith("Field 'n_cmpl': Value must be between")


def test_what_llama_vscode_asks_around_it(either: Served) -> None:
    get = either.client.get
    answer = either.client.post("/llamacpp/tokenize", json={"content": "the"})  # loads the model
    assert answer.json()["tokens"]
    assert get("/health").json()["status"] == "ok"
    assert get("/props").json()["default_generation_settings"]
    assert get("/v1/models").json()["data"][0]["id"] == "tiny"
