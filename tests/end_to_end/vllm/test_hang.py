"""An engine of vLLM that hangs: a process of it is stopped, as by a kernel or a collective that never returns."""

import os
import signal
import time
from pathlib import Path

import httpx2
import pytest

from segue.distributed.hang_watch import WARM_STEPS
from tests.support.asking import complete
from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.serving import serving
from tests.support.vllm.processes import descendants, is_running
from tests.support.vllm.server import GPU_OPTIONS, NEEDS_VLLM, share_one_node
from tests.support.waiting import wait_until

pytestmark = [*NEEDS_VLLM, pytest.mark.timeout(1200)]  # vLLM is started twice

STEP_TIMEOUT_S = 10.0  # no step of the tiny model takes as long on a busy machine
NEEDS_TWO_GPUS = pytest.mark.skipif(
    Path("/dev/nvidia0").exists() and not Path("/dev/nvidia1").exists(),
    reason="one GPU: vLLM's processes would need one each",
)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        pytest.param((), "EngineCore", id="the engine"),
        pytest.param(
            ("tensor_parallel_size=2",), "Worker_TP1", id="a worker", marks=NEEDS_TWO_GPUS
        ),
        pytest.param(
            ("data_parallel_size=2",), "EngineCore_DP1", id="one of two", marks=NEEDS_TWO_GPUS
        ),
    ],
)
def test_an_engine_that_hangs_is_told_of_and_started_again(
    options: tuple[str, ...],
    name: str,
    tiny_gguf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_one_node(monkeypatch)
    folder = write_tiny_hf(tmp_path / "tiny", tiny_gguf, context=8192)
    common = ("dtype=float32", "enforce_eager=true", "max_num_seqs=8", *GPU_OPTIONS)
    words = [word for option in (*common, *options) for word in ("--vllm-option", option)]
    words += ["--engine", "vllm", "--kv-memory-mib", "64", "--step-timeout", str(STEP_TIMEOUT_S)]
    with (
        serving(str(folder), *words) as served,
        httpx2.Client(base_url=served.url, timeout=300) as client,
    ):
        complete(client, "the", max_tokens=2 * WARM_STEPS, ignore_eos=True)
        body = {"prompt": "the", "max_tokens": 8000, "ignore_eos": True, "stream": True, "n": 2}
        with client.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            [stopped] = _named(name, served.process.pid)
            os.kill(stopped, signal.SIGSTOP)
            rest = "\n".join(lines)
        assert "engine_died" in rest
        assert client.get("/health").status_code == 503
        wait_until(lambda: any("does not answer for 10.5 s: ended" in line for line in served.log))
        wait_until(lambda: not is_running(stopped))
        deadline = time.monotonic() + 300
        while client.get("/health").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert complete(client, "the", max_tokens=2)["usage"]["completion_tokens"] == 2
        assert 'segue_restarts_total{model="tiny"} 1' in client.get("/metrics").text


def _named(name: str, pid: int) -> list[int]:
    """Of the processes that this one has started: vLLM gives them names."""
    started = descendants(pid)
    return [each for each in started if name in Path(f"/proc/{each}/cmdline").read_text("latin-1")]
