"""What answers of llama.cpp's and mistral.rs' dialects tell of a long request."""

import threading
from typing import Any

import pytest

from segue.dialects.llamacpp import LLAMACPP, native
from segue.dialects.llamacpp.settings import generation_settings
from segue.dialects.mistralrs import MISTRALRS, answer
from segue.dialects.openai import OPENAI
from segue.server.admission.request_caps import Caps
from tests.server.conftest import Live
from tests.support.fakes import speak


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("num_biases", "is_long"), [(20_000, True), (1, False)])
def test_long_settings_are_told_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, is_stream: bool, num_biases: int, is_long: bool
) -> None:
    """Each choice of llama.cpp's tells them, and they were encoded in a tenth of a second."""
    threads: list[str] = []

    def noting(*args: Any) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        return generation_settings(*args)

    monkeypatch.setattr(native, "generation_settings", noting)
    biases = {str(i): 1 for i in range(num_biases)}
    body = {"prompt": "a", "logit_bias": biases, "stream": is_stream}
    live = Live(speak(), (OPENAI, LLAMACPP), caps=Caps(logit_bias=num_biases))
    try:
        reply = live.client.post("/llamacpp/completion", json=body)
    finally:
        live.stop()
    assert reply.text.count('"bias":1.0') == num_biases
    assert [name != live.loop_thread for name in threads] == [is_long]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("num_chars", "is_long"), [(400_000, True), (9, False)])
def test_a_long_suffix_is_told_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, is_stream: bool, num_chars: int, is_long: bool
) -> None:
    """Each choice of mistral.rs' has it at its end."""
    threads: set[str] = set()
    choice = answer._choice

    def noting(*args: Any) -> dict[str, Any]:
        threads.add(threading.current_thread().name)
        return choice(*args)

    monkeypatch.setattr(answer, "_choice", noting)
    body = {"prompt": "a", "suffix": "z" * num_chars, "n": 2, "max_tokens": 1, "stream": is_stream}
    live = Live(speak(), (OPENAI, MISTRALRS))
    try:
        reply = live.client.post("/mistralrs/v1/completions", json=body)
    finally:
        live.stop()
    assert reply.text.count("z") == 2 * num_chars
    assert {name != live.loop_thread for name in threads} == {is_long}
