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
RUNNERS = {"curl": ["bash", "-c"], "python": [sys.executable, "-c"], "javascript": ["node", "-e"]}


def run(language: Language, code: str) -> str:
    command = RUNNERS[language]
    if shutil.which("curl" if language == "curl" else command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    if language == "javascript":
        command = ["node", "--input-type=module", "-e"]
    done = subprocess.run([*command, code], capture_output=True, timeout=PATIENCE_S, text=True)
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


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["openai", "llamacpp", "ollama", "vllm"])
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_programs_print_the_answer(
    served: Live, language: Language, name: str, stream: bool
) -> None:
    body = {**BODY, "stream": stream, "stop": ["never, ever"]}
    [dialect] = [each for each in DIALECTS if each.name == name]
    said = translate(body, SOURCE, dialect)
    assert not said.lost
    assert run(language, snippet(said, language, served.url, False)) == wanted(served, body)


@pytest.mark.parametrize("language", RUNNERS)
def test_a_key_is_read_from_the_environment_and_never_written(language: Language) -> None:
    for dialect in DIALECTS:
        code = snippet(translate(BODY, SOURCE, dialect), language, "http://x", True)
        assert "SEGUE_API_KEY" in code
