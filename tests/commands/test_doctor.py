"""What the doctor finds, on machines made of files."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from segue import machine
from segue.cli import cli
from segue.commands import doctor as of_doctor
from segue.commands.doctor import Finding, examine
from segue.config import Settings
from segue.errors import Incompatible
from segue.runners.llama import c_api
from tests.support.models.tiny_coders import CODERS
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_lora import write_tiny_lora

GOOD = {
    "proc/self/cgroup": "0::/\n",
    "proc/cpuinfo": "model name\t: A Fine CPU\nflags\t\t: fpu avx2 fma f16c\n",
    "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 9000000 kB\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Vocabularies are not tried, which takes a process each: what is put here is why one cannot be read."""
    reasons: list[str] = []
    monkeypatch.setattr(of_doctor, "vocabulary_obstacle", lambda path: next(iter(reasons), None))
    return reasons


def states(tmp_path: Path, files: dict[str, str], **settings: Any) -> dict[str, tuple[str, str]]:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    usual = {"port": 0, "cache_dir": tmp_path / "cache"}
    found = examine(Settings(**{**usual, **settings}), tmp_path)
    return {what: (state, words) for what, state, words in found}


def test_a_good_machine(tmp_path: Path) -> None:
    found = states(tmp_path, GOOD)
    assert {state for state, _ in found.values()} == {"ok"}
    assert "A Fine CPU" in found["processor"][1]
    assert "avx2" in found["instructions"][1]


@pytest.mark.parametrize(
    ("total", "words"),
    [(None, "the system does not say"), (16 * 10**9, "16.0 GB"), (900 * 10**6, "900.0 MB")],
)
def test_a_system_that_does_not_say_what_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int | None, words: str
) -> None:
    """macOS has no /proc: its total is known, and that is no reason to fail."""
    monkeypatch.setattr(machine, "_sysconf_bytes", lambda: total)
    files = {name: content for name, content in GOOD.items() if name != "proc/meminfo"}
    assert states(tmp_path, files)["memory"] == ("ok", words)


@pytest.mark.parametrize(
    ("file", "content", "what", "state"),
    [
        ("proc/meminfo", "MemTotal: 900000 kB\nMemAvailable: 90000 kB\n", "memory", "fails"),
        ("proc/cpuinfo", "flags\t: fpu f16c\n", "instructions", "slow"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [never]\n", "huge pages", "slow"),
        ("sys/fs/cgroup/memory.max", "1000000\n", "memory", "fails"),
    ],
)
def test_what_is_wrong_is_found(
    tmp_path: Path, file: str, content: str, what: str, state: str
) -> None:
    assert states(tmp_path, GOOD | {file: content})[what][0] == state


def test_a_system_without_what_llama_cpp_needs_has_our_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> None:
        raise Incompatible("libgomp.so.1 is missing: apt install libgomp1")

    monkeypatch.setattr(c_api, "load", load)
    state, words = states(tmp_path, GOOD)["tokenizer"]
    assert state == "slow"
    assert words.startswith("Segue's own")
    assert "apt install libgomp1" in words
    monkeypatch.setattr("segue.commands.doctor.KERNELS", ("no_such_library",))
    state, words = states(tmp_path, GOOD)["tokenizer"]
    assert state == "fails", "nothing could compute a model"
    assert "apt install libgomp1" in words


def test_settings_that_would_not_work(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        state, words = states(tmp_path, GOOD, port=port)["address"]
    assert state == "fails"
    assert words.startswith(f"127.0.0.1:{port}: ")
    assert words.endswith("; --port 0 takes a free one")
    assert "Segue" not in words
    assert states(tmp_path, GOOD, host="0.0.0.0")["keys"][0] == "note"
    for runner, used in (("auto", 256), ("llama", 10_000)):
        state, words = states(tmp_path, GOOD, threads=10_000, runner=runner)["threads"]
        assert (state, words.split()[0]) == ("slow", str(used))
    (tmp_path / "file").touch()
    assert states(tmp_path, GOOD, cache_dir=tmp_path / "file" / "x")["cache"][0] == "fails"
    assert states(tmp_path, GOOD, cpu_flavour="abacus")["instructions"][0] == "fails"


def test_what_is_about_our_engine_is_not_told_of_vllms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named threads and instructions, and was content on a machine without vLLM."""
    ours = {"tokenizer", "threads", "instructions", "huge pages", "cache"}
    for is_here, state in ((False, "fails"), (True, "ok")):
        monkeypatch.setattr(
            "segue.commands.doctor.importlib.util.find_spec", lambda _, here=is_here: here or None
        )
        found = states(tmp_path, GOOD, engine="vllm")
        assert found["engine"][0] == state
        assert not ours & found.keys()
    said = {"engine": "vllm", "threads": 4, "origins": {"threads": "--threads"}}
    assert states(tmp_path, GOOD, **said)["settings"] == (
        "note",
        "no effect with --engine vllm: --threads",
    )
    adapter = states(tmp_path, GOOD, engine="vllm", lora=("./folder",))["adapter"]
    assert adapter[0] == "fails"
    assert "lora_modules" in adapter[1]


def test_a_cache_that_is_a_file_or_full_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file was a good folder, and a full disk no place even for a model that is elsewhere."""
    (tmp_path / "cache").touch()
    assert states(tmp_path, GOOD)["cache"][0] == "fails"
    (tmp_path / "cache").unlink()
    monkeypatch.setattr(machine, "free_bytes", lambda folder: 1000)
    assert states(tmp_path, GOOD)["cache"][0] == "fails"
    mine = str(write_tiny_gguf(tmp_path / "mine.gguf"))
    assert states(tmp_path, GOOD, models=(mine,))["cache"][0] == "ok"


def test_a_model_that_could_not_be_served_is_found(tmp_path: Path) -> None:
    """It was content with a file that is not there, and promised to fail where serving would."""
    good = write_tiny_gguf(tmp_path / "good.gguf")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(good.read_bytes()[:2000])
    assert states(tmp_path, GOOD, models=(str(good),))["model"] == ("ok", "good: runner cpu")
    assert states(tmp_path, GOOD)["model"] == ("ok", "smollm2-135m-instruct: fetched at the start")
    for model, words in (
        ("./nowhere.gguf", "there is no file nowhere.gguf"),
        ("llama3", "no model 'llama3'"),
        (str(cut), "is not a sound GGUF file"),
        (str(tmp_path), "is a folder"),
    ):
        state, said = states(tmp_path, GOOD, models=(model,))["model"]
        assert state == "fails", model
        assert words in said


def test_adapters_and_the_draft_model_must_go_with_the_model(tmp_path: Path) -> None:
    base, other = (
        write_tiny_gguf(tmp_path / "base.gguf"),
        CODERS["CodeGemma"].write(tmp_path / "other.gguf"),
    )
    adapter = str(write_tiny_lora(tmp_path / "lora.gguf", base))
    found = states(tmp_path, GOOD, models=(str(base),), lora=(f"a={adapter}@0.5",), draft=str(base))
    assert found["adapter"] == ("ok", f"a={adapter}@0.5")
    assert found["draft model"] == ("ok", str(base))
    found = states(tmp_path, GOOD, models=(str(other),), lora=(adapter,), draft=str(base))
    assert found["adapter"][0] == "fails"
    assert "it is for llama, and the model is gemma" in found["adapter"][1]
    assert found["draft model"][0] == "fails"
    assert "tokens" in found["draft model"][1]
    found = states(tmp_path, GOOD, models=("owner/repo",), lora=(adapter,), draft="nowhere.gguf")
    assert "when the model has been fetched" in found["adapter"][1]
    assert (
        states(tmp_path, GOOD, models=(str(base),), draft="./nowhere.gguf")["draft model"][0]
        == "fails"
    )


def test_files_of_sampling_defaults_must_be_right(tmp_path: Path) -> None:
    assert "sampling" not in states(tmp_path, GOOD)
    file = tmp_path / "generation_config.json"
    file.write_text('{"top_p": 0.9}')
    said = {"generation_config": (str(file), "b=off"), "models": ("a=x.gguf", "b=y.gguf")}
    assert states(tmp_path, GOOD, **said)["sampling"][0] == "ok"
    file.write_text('{"top_p": 9}')
    state, words = states(tmp_path, GOOD, **said)["sampling"]
    assert state == "fails"
    assert f"{file}: top_p must be a number from 0 to 1, not 9" in words


class _Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"Segue 1.2: text completions")

    def log_message(self, format: str, *args: Any) -> None: ...


def test_an_address_is_told_from_what_is_there(tmp_path: Path) -> None:
    """The server that was started before is what most often has the default port."""
    assert states(tmp_path, GOOD)["address"] == ("ok", "127.0.0.1, and a free port at the start")
    with HTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        state, words = states(tmp_path, GOOD, port=server.server_port)["address"]
        thread.join()
    assert state == "fails"
    assert words.endswith(", by a Segue server; --port 0 takes a free one")


def test_the_command_fails_where_serving_would(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever memory and disk other programs have left, and though nobody may write to the home folder."""
    monkeypatch.setenv("SEGUE_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "memory", lambda _: machine.Memory(16 << 30, 9 << 30))
    monkeypatch.setattr(machine, "free_bytes", lambda _: 9 << 30)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = CliRunner().invoke(cli, ["doctor", "--port", str(taken.getsockname()[1])])
    assert result.exit_code == 1
    assert CliRunner().invoke(cli, ["doctor", "--port", "0"]).exit_code == 0


def test_brackets_in_a_finding_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install 'segue[vllm]'` was shown as `pip install 'segue'`."""
    monkeypatch.setattr(
        "segue.commands.doctor.examine", lambda _: [Finding("engine", "ok", "segue[vllm]")]
    )
    assert "segue[vllm]" in CliRunner().invoke(cli, ["doctor"]).output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert "_SEGUE_COMPLETE" in result.output


def test_a_vocabulary_that_cannot_be_read_fails(
    tmp_path: Path, tiny_gguf: Path, unread: list[str]
) -> None:
    """It was said that the runner can run it."""
    assert states(tmp_path, GOOD, models=(str(tiny_gguf),))["model"][0] == "ok"
    unread.append("unknown tokenizer: 'klingon'")
    state, words = states(tmp_path, GOOD, models=(str(tiny_gguf),))["model"]
    assert state == "fails"
    assert words.endswith(": its vocabulary cannot be read: unknown tokenizer: 'klingon'")
