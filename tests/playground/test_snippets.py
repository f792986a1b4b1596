"""Code that people paste must run: it is run."""

import shutil
import subprocess
import sys
from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.server.playground.snippets import Language, snippet
from segue.server.playground.translate import translate
from tests.support.live import Live
from tests.support.waiting import PATIENCE_S

SOURCE = DIALECTS[0].operations[0]
BODY = {"model": "fake", "prompt": "It's “the sea”", "max_tokens": 6, "seed": 7, "temperature": 0}
STOPPED = {**BODY, "stop": ["never, ever"]}
PROGRAMS = ("openai", "llamacpp", "ollama", "vllm")
RUNNERS = {
    "curl": ["bash", "-c"],
    "python": [sys.executable, "-X", "utf8", "-c"],
    "javascript": ["node", "-e"],
}


def run(language: Language, code: str) -> str:
    command = RUNNERS[language]
    if shutil.which("curl" if language == "curl" else command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    if language == "javascript":
        command = ["node", "--input-type=module", "-e"]
    arguments: list[str | bytes] = [*command, code.encode()]  # in UTF-8 whatever the locale is
    done = subprocess.run(arguments, capture_output=True, timeout=PATIENCE_S, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def wanted(served: Live, body: dict[str, Any]) -> str:
    answer = served.client.post("/openai/v1/completions", json={**body, "stream": False}).json()
    return "".join(choice["text"] for choice in answer["choices"])


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_curl_speaks_every_dialect(served: Live, dialect: Any) -> None:
    said = translate(BODY, SOURCE, dialect)
    answer = run("curl", snippet(said, "curl", served.url, False))
    assert '"error"' not in answer
    assert '"model":' in answer


def program(language: Language, name: str, url: str, body: dict[str, Any]) -> str:
    [dialect] = [each for each in DIALECTS if each.name == name]
    said = translate(body, SOURCE, dialect)
    assert not said.lost
    return snippet(said, language, url, False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_python_prints_the_answer(served: Live, name: str) -> None:
    """In one piece and streamed, in one process: a client takes seconds to import."""
    bodies = [{**STOPPED, "stream": stream} for stream in (False, True)]
    code = "\n".join(program("python", name, served.url, body) for body in bodies)
    assert run("python", code) == wanted(served, STOPPED) * 2


def test_what_ollamas_package_does_not_take_is_sent_without_it(served: Live) -> None:
    body = {**STOPPED, "max_tokens": -1}
    bodies = [{**body, "stream": stream} for stream in (False, True)]
    code = "\n".join(program("python", "ollama", served.url, body) for body in bodies)
    assert "'shift': False" in code
    assert run("python", code) == wanted(served, body) * 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_javascript_prints_the_answer(served: Live, name: str, stream: bool) -> None:
    code = program("javascript", name, served.url, {**STOPPED, "stream": stream})
    assert run("javascript", code) == wanted(served, STOPPED)


@pytest.mark.parametrize("language", RUNNERS)
def test_a_key_is_read_from_the_environment_and_never_written(language: Language) -> None:
    for dialect in DIALECTS:
        code = snippet(translate(BODY, SOURCE, dialect), language, "http://x", True)
        assert "SEGUE_API_KEY" in code
