"""The real lm-evaluation-harness against a real server: `make lm-eval` sets up what it needs."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.serving import serving
from tests.support.waiting import LOADING_S

pytestmark = [
    pytest.mark.lm_eval,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed: `make lm-eval` installs it and runs this",
    ),
]

ROOT = Path(__file__).parent.parent.parent
TASKS = ROOT / "tests" / "data" / "lm_eval"
CHANCE = 0.25
ROUNDING = 0.05  # a sum of log-probabilities may depend a little on the batch


@pytest.fixture(scope="module")
def client(embedded_gguf: Path) -> Iterator[httpx2.Client]:
    with (
        serving(str(embedded_gguf)) as served,
        httpx2.Client(base_url=served.url, timeout=LOADING_S) as client,
    ):
        yield client


@dataclass(frozen=True)
class Run:
    """What the harness found: figures by task, and each task's samples."""

    results: dict[str, dict[str, Any]]
    samples: dict[str, list[dict[str, Any]]]


def objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def harness(url: str, output: Path, model: str, arguments: str, tasks: str) -> Run:
    command = [sys.executable, "-m", "lm_eval", "--model", model]
    command += ["--model_args", f"model=default,{arguments}".replace("URL", url)]
    command += ["--tasks", tasks, "--include_path", str(TASKS), "--batch_size", "16"]
    command += ["--output_path", str(output), "--log_samples"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(output / "hf")}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | offline, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    [report] = output.rglob("results_*.json")
    samples = {
        task: [parsed for path in output.rglob(f"samples_{task}_*") for parsed in objects(path)]
        for task in tasks.split(",")
    }
    return Run(json.loads(report.read_text("utf-8"))["results"], samples)


REMOTE = "base_url=URL/v1/completions,tokenizer_backend=remote"


@pytest.fixture(scope="module", params=["True", "False"], ids=["token ids", "strings"])
def run(
    request: pytest.FixtureRequest, client: httpx2.Client, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    return harness(
        str(client.base_url).rstrip("/"),
        tmp_path_factory.mktemp("harness"),
        "local-completions",
        f"{REMOTE},tokenized_requests={request.param}",
        "segue_facts,segue_prose",
    )


# --- the same, asked directly --------------------------------------------------------------------


def tokenize(client: httpx2.Client, text: str) -> list[int]:
    answer = client.post("/tokenize", json={"prompt": text, "add_special_tokens": False})
    tokens: list[int] = answer.json()["tokens"]
    return tokens


def logprob(client: httpx2.Client, tokens: list[int], start: int) -> float:
    """Of the tokens from `start` on, given those before."""
    asked = {"prompt": tokens, "max_tokens": 0, "echo": True, "logprobs": 0}
    answer = client.post("/v1/completions", json=asked).json()
    assert answer["usage"]["completion_tokens"] == 0
    return float(sum(answer["choices"][0]["logprobs"]["token_logprobs"][start:]))


def continuation(client: httpx2.Client, context: str, text: str) -> float:
    return logprob(client, tokenize(client, context + text), len(tokenize(client, context)))


DOCS = objects(TASKS / "facts.jsonl")


@pytest.fixture(scope="module")
def direct(client: httpx2.Client) -> list[list[float]]:
    """Of every choice of every question."""
    return [
        [continuation(client, doc["question"], f" {choice}") for choice in doc["choices"]]
        for doc in DOCS
    ]


def accuracy(likelihoods: list[list[float]]) -> float:
    guesses = [max(range(len(choices)), key=choices.__getitem__) for choices in likelihoods]
    right: list[bool] = [guess == doc["answer"] for guess, doc in zip(guesses, DOCS, strict=True)]
    return sum(right) / len(right)


def test_multiple_choice_agrees_with_the_api(run: Run, direct: list[list[float]]) -> None:
    samples = sorted(run.samples["segue_facts"], key=lambda sample: sample["doc_id"])
    found = [[float(response[0]) for response in s["filtered_resps"]] for s in samples]
    assert len(found) == len(direct)
    for theirs, ours in zip(found, direct, strict=True):
        assert theirs == pytest.approx(ours, abs=ROUNDING)
    assert run.results["segue_facts"]["acc,none"] == pytest.approx(accuracy(direct))


def test_what_the_model_knows_scores_far_above_chance(run: Run) -> None:
    assert run.results["segue_facts"]["acc,none"] > 3 * CHANCE


def test_greedy_answers_are_seen_as_such(run: Run, client: httpx2.Client) -> None:
    """Paris is what the model says itself, Moscow is not: told apart by float equality."""
    france = run.samples["segue_facts"][0]
    seen = dict(zip(france["doc"]["choices"], france["filtered_resps"], strict=True))
    assert (seen["Paris"][1], seen["Moscow"][1]) == ("True", "False")


def test_rolling_perplexity_agrees_with_the_api(run: Run, client: httpx2.Client) -> None:
    bos = client.get("/tokenizer_info").json()
    prefix = tokenize(client, bos["bos_token"] or bos["eos_token"])
    total, words, width = 0.0, 0, 0
    for doc in objects(TASKS / "prose.jsonl"):
        total += logprob(client, prefix + tokenize(client, doc["text"]), 1)
        words += len(re.split(r"\s+", doc["text"]))
        width += len(doc["text"].encode())
    found = run.results["segue_prose"]
    per_word = math.exp(-total / words)
    assert found["word_perplexity,none"] == pytest.approx(per_word, rel=0.01)
    per_byte = -total / width / math.log(2)
    assert found["bits_per_byte,none"] == pytest.approx(per_byte, rel=0.01)


def test_the_harness_own_gguf_client(
    client: httpx2.Client, direct: list[list[float]], tmp_path: Path
) -> None:
    """It knows characters only: offsets tell it where the continuation begins."""
    url = str(client.base_url).rstrip("/")
    run = harness(url, tmp_path, "gguf", "base_url=URL", "segue_facts")
    assert run.results["segue_facts"]["acc,none"] == pytest.approx(accuracy(direct))
