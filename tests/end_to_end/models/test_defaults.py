"""Files with sampling defaults of their own, served: what is drawn is what those defaults draw when they are sent."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.bench.harness.llama_server import llama_server
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.serving import Served, serving
from tests.support.waiting import LOADING_S, wait_until

COLD = {"temp": 0.3, "top_k": 5, "penalty_repeat": 1.2}
SENT = {"temperature": 0.3, "top_k": 5, "repetition_penalty": 1.2}
EVERY_KEY = {
    "sequence": "top-k;magic;typ_p;Nucleus;temp",
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.25,
    "xtc_probability": 0.1,
    "xtc_threshold": 0.2,
    "temp": 0.6,
    "penalty_last_n": 9,
    "penalty_repeat": 1.5,
    "mirostat": 2,
    "mirostat_tau": 4.5,
    "mirostat_eta": 0.2,
}
ASKED: dict[str, Any] = {"prompt": "The sea", "max_tokens": 24, "seed": 5}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_gguf(folder / "cold.gguf", sampling=COLD | {"top_p": "wide"})
    write_tiny_gguf(folder / "plain.gguf")
    write_tiny_gguf(folder / "named.gguf", sampling={"temp": 1.9})
    (folder / "generation_config.json").write_text(json.dumps({"temperature": 0}))
    models = [str(folder / f"{name}.gguf") for name in ("cold", "plain", "named")]
    choice = f"named={folder}"
    with serving(*models, "--generation-config", choice, "--threads", "1") as server:
        yield server


def text(served: Served, path: str, **more: Any) -> str:
    answer = httpx2.post(served.url + path, json=ASKED | more, timeout=LOADING_S)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


@pytest.mark.parametrize("path", ["/vllm/v1/completions", "/mistralrs/v1/completions"])
def test_each_model_has_its_own(served: Served, path: str) -> None:
    """Two of the three are loaded for their first request."""
    off = {"temperature": 1.0, "top_k": 0, "repetition_penalty": 1.0}
    cold = text(served, path, model="cold")
    assert cold == text(served, path, model="plain", **SENT)
    assert cold != text(served, path, model="plain")
    assert text(served, path, model="cold", **off) == text(served, path, model="plain")
    assert text(served, path, model="named") == text(served, path, model="plain", temperature=0)


def test_the_root_has_the_same_for_every_model(served: Served) -> None:
    plain = text(served, "/v1/completions", model="plain")
    assert text(served, "/v1/completions", model="cold") == plain
    assert text(served, "/v1/completions", model="named") == plain


def test_they_are_shown_and_what_is_wrong_is_logged(served: Served) -> None:
    shown = httpx2.get(served.url + "/props", timeout=LOADING_S).json()[
        "default_generation_settings"
    ]
    wanted = {"temperature": 0.3, "top_k": 5, "repeat_penalty": 1.2, "top_p": 0.95}
    assert {name: shown["params"][name] for name in wanted} == wanted
    told = "cold: sampling defaults by cold.gguf: top_k 5, temperature 0.3"
    wait_until(lambda: any(told in line for line in served.log))  # a thread writes the log
    wrong = "cold.gguf is left out: general.sampling.top_p must be a number"
    assert any(wrong in line for line in served.log)


def test_props_are_those_of_llama_cpps_own_server(tmp_path: Path) -> None:
    """Of the file with every key, among them a step that is not known. It has floats of 32 bits."""
    file = write_tiny_gguf(tmp_path / "own.gguf", sampling=EVERY_KEY)
    peer = llama_server(str(file), 1, {"n_ctx": 256})
    with peer as theirs, serving(str(file), "--threads", "1") as server:
        told = [
            httpx2.get(f"{url}/props", timeout=LOADING_S).json()["default_generation_settings"][
                "params"
            ]
            for url in (theirs, server.url)
        ]
    names = [name for name in told[0] if name in told[1] and name != "seed"]
    assert {"samplers", "temperature", "mirostat_eta", "repeat_last_n"} < set(names)
    their, our = ({name: _short(params[name]) for name in names} for params in told)
    assert our == their


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def test_several_server_processes_know_them(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(SENT | {"max_new_tokens": 3}))
    fake = ("--runner", "fake", "--server-processes", "2", "--generation-config", str(tmp_path))
    with serving(*fake) as server:
        answer = httpx2.post(
            f"{server.url}/vllm/v1/completions", json={"model": "fake", **ASKED}, timeout=LOADING_S
        )
        assert answer.json()["usage"]["completion_tokens"] <= 3
        shown = httpx2.get(server.url + "/props", timeout=LOADING_S).json()
        assert shown["default_generation_settings"]["params"]["temperature"] == 0.3


def test_a_file_that_is_wrong_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "generation_config.json"
    file.write_text('{"temperature": "hot"}')
    command = [sys.executable, "-m", "segue", "serve", "--port", "0", "--runner", "fake"]
    ended = subprocess.run(
        [*command, "--generation-config", str(file)],
        capture_output=True,
        text=True,
        timeout=LOADING_S,
    )
    assert ended.returncode != 0
    assert f"{file}: temperature must be a number" in ended.stderr
    assert "Traceback" not in ended.stderr
