"""What a request does to the model itself: it is loaded, worded for, kept and let go."""

import pytest
from msgspec.structs import replace

from segue.dialects import DIALECTS
from segue.dialects.llamastack import LLAMASTACK
from segue.dialects.ollama import OLLAMA
from segue.dialects.openai import OPENAI
from segue.types import (
    CompletionRequest,
    Delta,
    Event,
    Failed,
    ModelDefaults,
    Prompt,
    Prompted,
)
from tests.server.conftest import Launch, Live
from tests.support.fakes import INFO, Pause, speak
from tests.support.waiting import PATIENCE_S

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
)


@pytest.fixture
def live(launch: Launch) -> Live:
    live = launch(speak("one"), dialects=(OPENAI, OLLAMA, LLAMASTACK))
    live.engine.info = replace(INFO, chat_template=TEMPLATE, bos_token="<s>")
    return live


def generate(live: Live, **body: object) -> dict[str, object]:
    answer = live.client.post("/api/generate", json={"model": "tiny", "stream": False, **body})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_prompt_is_put_in_the_models_own_words(live: Live) -> None:
    generate(live, prompt="Hi", system="Be kind.")
    prompt = Prompt(("<s>[system]Be kind.[user]Hi[assistant]",), add_special=False)
    assert live.engine.requests[-1].prompts == (prompt,)
    generate(live, prompt="Hi", context=[1, 2])
    assert live.engine.requests[-1].prompts == (Prompt(((1, 2), "[user]Hi[assistant]")),)
    generate(live, prompt="Hi", raw=True)
    assert live.engine.requests[-1].prompts == (Prompt(("Hi",)),)
    live.complete(prompt="Hi")
    assert live.engine.requests[-1].prompts == (Prompt(("Hi",)),)


def test_without_a_template_the_system_text_comes_first(live: Live) -> None:
    live.engine.info = INFO
    generate(live, prompt="Hi", system="Be kind.")
    assert live.engine.requests[-1].prompts == (Prompt(("Be kind.\n\nHi",)),)


def test_a_template_that_fails_is_a_400(live: Live) -> None:
    live.engine.info = replace(INFO, chat_template="{{ raise_exception('users only') }}")
    answer = live.client.post("/api/generate", json={"model": "tiny", "prompt": "Hi"})
    assert answer.status_code == 400
    assert "users only" in answer.json()["error"]
    assert live.engine.requests == []


def test_an_empty_prompt_loads_and_unloads(live: Live) -> None:
    assert generate(live)["done_reason"] == "load"
    assert live.models.kept == []
    assert generate(live, keep_alive="1h")["done_reason"] == "load"
    assert live.models.kept[-1] == ("tiny", 3600.0)
    assert generate(live, keep_alive=0)["done_reason"] == "unload"
    assert live.models.kept[-1] == ("tiny", 0.0)
    assert live.engine.requests == []


def test_a_model_is_kept_from_the_end_of_its_request_on(live: Live) -> None:
    pause = Pause()

    def script(request: CompletionRequest) -> list[Event | Pause]:
        prompted, *rest = speak("one")(request)
        return [prompted, Delta(0, "zero ", (1,)), pause, *rest]  # type: ignore[list-item]

    live.engine.script = script
    body = {"model": "tiny", "prompt": "x", "stream": True, "keep_alive": 5}
    with live.client.stream("POST", "/v1/completions", json=body) as answer:
        assert live.models.kept == []
        live.release(pause)
        answer.read()
    assert live.models.was_kept.wait(PATIENCE_S)
    assert live.models.kept == [("tiny", 5.0)]


def test_a_name_that_is_not_served(live: Live) -> None:
    assert live.complete(model="gpt-5").status_code == 200
    body = {"model": "gpt-5", "prompt": "x"}
    assert live.client.post("/api/generate", json=body).status_code == 404
    assert live.client.post("/v1/openai/v1/completions", json=body).status_code == 404


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/v1/openai/v1/completions", 'data: {"error":{"message":"gone","code":"503"}}\n\n'),
        ("/api/generate", '{"error":"gone"}\n'),
    ],
)
def test_errors_inside_streams_are_each_systems_own(live: Live, path: str, end: str) -> None:
    pause = Pause()
    live.engine.script = lambda request: [
        Prompted(0, (1,), 0),
        Delta(0, "one", (1,)),
        pause,
        Failed("engine_died", "gone"),
    ]
    body = {"model": "tiny", "prompt": "x", "stream": True}
    with live.client.stream("POST", path, json=body) as answer:
        texts = answer.iter_text()
        assert "one" in next(texts)
        live.release(pause)
        assert "".join(texts) == end


@pytest.mark.parametrize("path", ["/ollama/", "/api/tags", "/api/version"])
def test_ollamas_pages_have_heads(live: Live, path: str) -> None:
    assert live.client.head(path).status_code == 200


@pytest.mark.parametrize("fim_only", [True, False])
def test_a_server_may_fill_by_the_models_own_tokens_only(launch: Launch, fim_only: bool) -> None:
    live = launch(speak("one"), fim_only=fim_only)
    live.complete(prompt="a", suffix="b")
    infill = live.engine.requests[-1].infill
    assert infill is not None
    assert infill.mode == ("fim" if fim_only else "auto")


# --- the model's own sampling defaults -----------------------------------------------------------

OWN = ModelDefaults(source="tiny.gguf", sampling={"temperature": 0.25, "top_k": 7}, max_tokens=30)


def test_a_model_brings_its_own_sampling_defaults(launch: Launch) -> None:
    live = launch(speak("one"), dialects=DIALECTS, defaults={"sampling.top_k": 3})
    live.engine.info = replace(INFO, defaults=OWN)
    asked = {"model": "tiny", "prompt": "ab", "max_tokens": 40, "raw": True, "stream": False}

    def drawn(path: str, **more: object) -> tuple[float, int, int | None]:
        assert live.client.post(path, json=asked | more).status_code == 200
        request = live.engine.requests[-1]
        return request.sampling.temperature, request.sampling.top_k, request.max_tokens

    assert drawn("/vllm/v1/completions") == (0.25, 3, 30)
    assert drawn("/vllm/v1/completions", temperature=0.5, top_k=5) == (0.5, 5, 30)
    assert drawn("/mistralrs/v1/completions") == (0.25, 3, 40)
    assert drawn("/llamacpp/completion", n_predict=40) == (0.25, 3, 40)
    assert drawn("/llamacpp/v1/completions", stream=True) == (0.25, 3, 40)
    assert drawn("/v1/completions") == (1.0, 3, 40)
    assert drawn("/ollama/v1/completions") == (1.0, 3, 40)
    assert drawn("/llamafile/v1/completions")[0] == 1.0
    answer = live.client.post("/llamacpp/completion", json=asked).json()
    assert answer["generation_settings"]["temperature"] == 0.25
    shown = live.client.get("/props").json()["default_generation_settings"]["params"]
    assert (shown["temperature"], shown["top_k"]) == (0.25, 3)


def test_a_model_that_is_loaded_for_the_request_does_too(launch: Launch) -> None:
    live = launch(speak("one"), dialects=DIALECTS)
    live.engine.info = replace(INFO, defaults=OWN)
    live.models.is_up = False

    async def load() -> None:
        live.models.is_up = True

    live.models.gate = load
    answer = live.client.post("/llamacpp/completion", json={"prompt": "ab"}).json()
    assert live.engine.requests[-1].sampling.temperature == 0.25
    assert answer["generation_settings"]["temperature"] == 0.25
