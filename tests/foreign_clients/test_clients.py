"""The clients people use, against a real socket: each dialect as the library written for its system sees it.

The model always continues with SCRIPT (tests/contract), so that every answer is known beforehand.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from segue.runners.fake import FakeLoader
from tests.contract import MODEL, SCRIPT
from tests.support.live import Served, serve

PREFIXES = [
    "",
    "/openai",
    "/llamacpp",
    "/llamafile",
    "/mistralrs",
    "/vllm",
    "/llamastack",
    "/ollama",
]
PROMPT = "x"
SAID = SCRIPT[:9]  # " brown fo"
OUR_KEY = "none"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    served = serve(FakeLoader(MODEL, script=SCRIPT.encode()), MODEL)
    yield served
    served.stop()


# --- openai --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=PREFIXES)
def base_url(server: Served, request: pytest.FixtureRequest) -> str:
    return f"{server.url}{request.param}/v1"


def test_openai(base_url: str) -> None:
    with openai.OpenAI(base_url=base_url, api_key=OUR_KEY) as client:
        answer = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=9)
        assert answer.object == "text_completion"
        assert answer.model == MODEL
        (choice,) = answer.choices
        assert (choice.text.strip(), choice.index, choice.finish_reason) == (
            SAID.strip(),
            0,
            "length",
        )
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (1, 9)
        names = {card.id for card in client.models.list()}
        assert names & {MODEL, f"{MODEL}:latest"}  # Ollama's have a tag


def test_openai_streams(base_url: str) -> None:
    with (
        openai.OpenAI(base_url=base_url, api_key=OUR_KEY) as client,
        client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=9, stream=True) as stream,
    ):
        chunks = list(stream)
    assert len({chunk.id for chunk in chunks}) == 1
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.text or "" for choice in choices).strip() == SAID.strip()
    assert [choice.finish_reason for choice in choices].count("length") == 1
    assert choices[-1].finish_reason == "length"


def test_openai_async(base_url: str) -> None:
    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key=OUR_KEY) as client:
            answer = await client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=9)
            assert answer.choices[0].text.strip() == SAID.strip()
            text = ""
            async with await client.completions.create(
                model=MODEL, prompt=PROMPT, max_tokens=9, stream=True
            ) as stream:
                async for chunk in stream:
                    text += "".join(choice.text or "" for choice in chunk.choices)
            assert text.strip() == SAID.strip()

    asyncio.run(main())


def test_openai_errors(base_url: str) -> None:
    with (
        openai.OpenAI(base_url=base_url, api_key=OUR_KEY, max_retries=0) as client,
        pytest.raises(openai.APIStatusError) as error,
    ):
        client.completions.create(model=MODEL, prompt=PROMPT, temperature="warm")
    assert 400 <= error.value.status_code < 500
    assert "temperature" in error.value.response.text


# --- ollama --------------------------------------------------------------------------------------


@pytest.fixture(params=["", "/ollama"])
def ollama(server: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    library = pytest.importorskip("ollama")
    with library.Client(host=f"{server.url}{request.param}") as client:
        yield client


OPTIONS = {"num_predict": 9, "temperature": 0}


def test_ollama_generates(ollama: Any) -> None:
    answer = ollama.generate(model=MODEL, prompt=PROMPT, raw=True, options=OPTIONS)
    assert (answer.response, answer.done, answer.done_reason) == (SAID, True, "length")
    assert (answer.prompt_eval_count, answer.eval_count) == (1, 9)
    assert answer.total_duration > answer.eval_duration > 0


def test_ollama_streams_and_goes_on(ollama: Any) -> None:
    lines = list(ollama.generate(model=MODEL, prompt=PROMPT, stream=True, options=OPTIONS))
    assert "".join(line.response for line in lines) == SAID
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    context = lines[-1].context
    more = ollama.generate(model=MODEL, prompt="x", context=context, options=OPTIONS)
    assert more.response == (SCRIPT * 2)[10:19]


def test_ollama_scores(ollama: Any) -> None:
    answer = ollama.generate(
        model=MODEL, prompt=PROMPT, raw=True, options=OPTIONS, logprobs=True, top_logprobs=2
    )
    assert "".join(score.token for score in answer.logprobs) == SAID
    assert all(len(score.top_logprobs) == 2 for score in answer.logprobs)


def test_ollama_shows_its_models(ollama: Any) -> None:
    ollama.generate(model=MODEL)  # what it can do is known once it is loaded
    (card,) = ollama.list().models
    assert card.model == f"{MODEL}:latest"
    shown = ollama.show(MODEL)
    assert shown.capabilities == ["completion", "insert"]
    assert shown.modelinfo["general.architecture"] == shown.details.family == card.details.family
    assert shown.modelinfo[f"{card.details.family}.context_length"] == 4096
    assert shown.parameters.split() == ["num_ctx", "4096"]


def test_ollama_loads_and_unloads(ollama: Any) -> None:
    assert ollama.generate(model=MODEL).done_reason == "load"
    (running,) = ollama.ps().models
    assert running.context_length == 4096
    assert ollama.generate(model=MODEL, keep_alive=0).done_reason == "unload"
    assert ollama.generate(model=MODEL, prompt=PROMPT, options=OPTIONS).response == SAID


def test_ollama_reads_errors(ollama: Any) -> None:
    library = pytest.importorskip("ollama")
    with pytest.raises(library.ResponseError, match="not found") as error:
        ollama.generate(model="llama3", prompt=PROMPT)
    assert error.value.status_code == 404
    with pytest.raises(library.ResponseError, match="num_predict"):
        list(ollama.generate(model=MODEL, prompt=PROMPT, stream=True, options={"num_predict": "x"}))


def test_ollama_async(server: Served) -> None:
    library = pytest.importorskip("ollama")

    async def main() -> str:
        async with library.AsyncClient(host=server.url) as client:
            stream = await client.generate(model=MODEL, prompt=PROMPT, stream=True, options=OPTIONS)
            return "".join([line.response async for line in stream])

    assert asyncio.run(main()) == SAID


# --- langchain -----------------------------------------------------------------------------------


def langchain(server: Served, **clients: Any) -> Any:
    library = pytest.importorskip("langchain_openai")
    return library.OpenAI(
        base_url=f"{server.url}/v1",
        api_key=OUR_KEY,
        model=MODEL,
        max_tokens=9,
        temperature=0,
        **clients,
    )


def test_langchain(server: Served) -> None:
    with openai.DefaultHttpxClient() as http:
        llm = langchain(server, http_client=http)
        assert llm.invoke(PROMPT) == SAID
        assert "".join(llm.stream(PROMPT)) == SAID


def test_langchain_async(server: Served) -> None:
    async def main() -> None:
        async with openai.DefaultAsyncHttpxClient() as http:
            llm = langchain(server, http_async_client=http)
            assert await llm.ainvoke(PROMPT) == SAID
            assert "".join([text async for text in llm.astream(PROMPT)]) == SAID

    asyncio.run(main())


def test_langchain_slices_batches_by_position(server: Served) -> None:
    """It sends 20 prompts at a time and trusts the order of the choices."""
    prompts = ["x" * (1 + i % 5) for i in range(25)]
    with openai.DefaultHttpxClient() as http:
        answer = langchain(server, http_client=http).generate(prompts)
    assert [texts[0].text for texts in answer.generations] == [
        SCRIPT[len(prompt) - 1 :][:9] for prompt in prompts
    ]
    assert answer.llm_output["token_usage"]["completion_tokens"] == 25 * 9


# --- llama stack ---------------------------------------------------------------------------------


# The client under its old name, which asks the path of 2025, and under its new one.
STACKS = [
    ("llama_stack_client", "LlamaStackClient", ""),
    ("llama_stack_client", "LlamaStackClient", "/llamastack"),
    ("ogx_client", "OgxClient", "/llamastack"),
]


@pytest.fixture(params=STACKS)
def llama_stack(server: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    name, client_class, path = request.param
    library = pytest.importorskip(name)
    with getattr(library, client_class)(base_url=f"{server.url}{path}") as client:
        yield client


def test_llama_stack(llama_stack: Any) -> None:
    answer = llama_stack.completions.create(model=MODEL, prompt=PROMPT, max_tokens=9, logprobs=True)
    assert answer.choices[0].text == SAID
    assert "".join(entry.token for entry in answer.choices[0].logprobs.content) == SAID


def test_llama_stack_streams_to_the_end(llama_stack: Any) -> None:
    """Its client reads every event as JSON, so nothing else may come."""
    stream = llama_stack.completions.create(model=MODEL, prompt=PROMPT, max_tokens=9, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == SAID


def test_llama_stack_knows_registered_models_only(llama_stack: Any) -> None:
    with pytest.raises(Exception, match="meta/other") as error:
        llama_stack.completions.create(model="meta/other", prompt=PROMPT)
    assert type(error.value).__name__ == "NotFoundError"
    assert error.value.body["status"] == 404  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["llama_stack_client.LlamaStackClient", "ogx_client.OgxClient"])
def test_llama_stack_lists_providers_and_routes(server: Served, name: str) -> None:
    module, _, kind = name.partition(".")
    library = pytest.importorskip(module)
    with getattr(library, kind)(base_url=f"{server.url}/llamastack") as client:
        (provider,) = client.providers.list()
        assert client.providers.retrieve(provider.provider_id) == provider
        assert client.models.retrieve(MODEL).provider_id == provider.provider_id
        assert "/v1/completions" in [each.route for each in client.routes.list()]
        assert client.inspect.health().status == "OK"


def test_ogx_asks_for_the_same_below_admin(server: Served) -> None:
    library = pytest.importorskip("ogx_client")
    with library.OgxClient(base_url=f"{server.url}/llamastack") as client:
        admin = client.alpha.admin
        assert admin.health().status == "OK"
        assert admin.version().version == client.inspect.version().version
        (provider,) = admin.list_providers()
        assert admin.inspect_provider(provider.provider_id).provider_type == provider.provider_type
        assert "/v1alpha/admin/health" in [each.route for each in admin.list_routes()]


def test_llama_stack_lists_models(server: Served) -> None:
    library = pytest.importorskip("llama_stack_client")
    with library.LlamaStackClient(base_url=f"{server.url}/llamastack") as client:
        assert [card.identifier for card in client.models.list()] == [MODEL]
