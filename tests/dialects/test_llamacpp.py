"""What llama.cpp's clients and its own tests look for in shapes."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from segue.dialects.base import Call, Companion, Reply, Service, Stamp
from segue.dialects.fields.kinds import Mismatch
from segue.dialects.llamacpp import COMPLETION, LLAMACPP, metrics
from segue.dialects.llamacpp.chat import Messages
from segue.dialects.llamacpp.settings import generation_settings
from segue.dialects.llamacpp.text import Completion
from segue.dialects.rendering.tally import Tally
from segue.dialects.rendering.text_completion import render_progress
from segue.errors import (
    EngineFault,
    InvalidField,
    SegueError,
    Unavailable,
    UnknownModel,
    Unsupported,
)
from segue.types import (
    Delta,
    Done,
    Event,
    Finished,
    InfillMethod,
    Progress,
    Prompt,
    Prompted,
    Stats,
    TokenScore,
    Usage,
)
from tests.support.fakes import INFO
from tests.support.one_card import CHATTY, AddsBos, OneCard
from tests.support.prompt_scores import columns

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=1, fingerprint="0123abcd")


def ask(method: str, path: str, service: Service | None = None, **body: Any) -> Reply:
    page: Companion = next(
        each for each in LLAMACPP.companions if (each.method, each.path) == (method, path)
    )
    values = page.table.read(body).values if page.table.rows else {}

    async def answered() -> Reply:
        return await page.answer(service or OneCard(), values)

    return asyncio.run(answered())


def call_of(**body: Any) -> Call:
    call = COMPLETION.parse({"prompt": "p", **body}, STAMP)
    return msgspec.structs.replace(call, info=CHATTY)


def test_no_seed_is_shown_as_minus_one_without_a_sign() -> None:
    """It is a number without one there, which typed clients read it as."""
    call = call_of()
    sampling = msgspec.structs.replace(call.request.sampling, seed=None)
    request = msgspec.structs.replace(call.request, sampling=sampling)
    unseeded = msgspec.structs.replace(call, request=request)
    assert generation_settings(unseeded)["seed"] == 2**32 - 1


@pytest.mark.parametrize(
    ("given", "used"), [(5, 5), (2**32 + 5, 5), (-2, 2**32 - 2), (-1, 1), (2**64 - 1, 1)]
)
def test_seeds_have_32_bits(given: int, used: int) -> None:
    assert generation_settings(call_of(seed=given))["seed"] == used


@pytest.mark.parametrize(
    ("field", "given", "used"),
    [
        ("mirostat", -1, 0),
        ("mirostat", 7, 2),
        ("typical_p", 2, 1.0),
        ("dry_base", 3, 3.0),
        ("dry_base", 0, 1.75),
        ("presence_penalty", 1e9, 1e6),
        ("n_probs", -1, 0),
    ],
)
def test_what_is_out_of_range_is_replaced(field: str, given: float, used: float) -> None:
    assert generation_settings(call_of(**{field: given}))[field] == used


@pytest.mark.parametrize("value", [0.0, -0.5, 1.5])
def test_a_top_n_sigma_is_told_as_it_was_sent(value: float) -> None:
    """Also one that is off: 0 was told as -1, what stands there without one."""
    assert generation_settings(call_of(top_n_sigma=value))["top_n_sigma"] == value
    assert generation_settings(call_of())["top_n_sigma"] == -1


def test_adaptive_decay_is_not() -> None:
    with pytest.raises(InvalidField, match="Field 'adaptive_decay': Value must be between"):
        call_of(adaptive_decay=1)


def test_settings_tell_adapters_and_what_is_timed() -> None:
    told = generation_settings(call_of(lora=[{"id": 1, "scale": 0.5}], timings_per_token=True))
    assert (told["lora"], told["timings_per_token"]) == ([{"id": 1, "scale": 0.5}], True)
    assert (told["n_keep"], told["n_discard"]) == (0, 0)


def test_ignore_eos_shows_in_logit_bias() -> None:
    banned = [{"token": 5, "bias": None}, {"token": 9, "bias": None}]
    assert generation_settings(call_of(ignore_eos=True))["logit_bias"] == banned
    assert generation_settings(call_of())["logit_bias"] == []
    huge = generation_settings(call_of(logit_bias={"3": -1e9}))["logit_bias"]
    assert huge == [{"token": 3, "bias": -1e6}]
    both = generation_settings(call_of(ignore_eos=True, logit_bias=[[3, 1.5]]))["logit_bias"]
    assert both == [{"token": 3, "bias": 1.5}, *banned]


def test_system_fingerprint_begins_with_b() -> None:
    (operation, *_) = LLAMACPP.operations
    call = operation.parse({"prompt": "p"}, STAMP)
    whole = Completion(call).fold(Tally(call.request))
    assert whole["system_fingerprint"] == "b0-0123abcd"


@pytest.mark.parametrize(
    ("text", "pieces", "offsets"),
    [
        ("Hey", [b"<s>", b"Hey", b" you"], [0, 0, 3]),
        ("\ufffd", [b"\xe2", b"\x98", b" you"], [0, 1, 2]),
    ],
    ids=["BOS, which the tokenizer put in front, has no width", "ids may end inside a character"],
)
def test_offsets_of_an_echo_are_those_of_its_text(
    text: str, pieces: list[bytes], offsets: list[int]
) -> None:
    (operation, *_) = LLAMACPP.operations
    call = operation.parse({"prompt": text, "echo": True, "logprobs": 1}, STAMP)
    scores = tuple(
        TokenScore(token, piece, -1.0 if token else None, 1, ())
        for token, piece in enumerate(pieces)
    )
    num_prompt = 2 if pieces[0] == b"<s>" else 1
    answer = b"".join(pieces[num_prompt:]).decode(errors="replace")
    events: list[Event] = [
        Prompted(0, (0, 1)[:num_prompt], 0, text, columns(scores[:num_prompt])),
        Delta(0, answer, (2,), scores[num_prompt:]),
        Finished(0, "length", "max_tokens", 1),
    ]
    streamed, tally = Completion(call), Tally(call.request)
    chunks = [chunk for event in events for chunk in streamed.push(event)]
    written = [json.loads(msgspec.json.encode(chunk))["choices"][0] for chunk in chunks]
    parts = [each["logprobs"]["text_offset"] for each in written[:2]]
    assert parts == [offsets[:num_prompt], offsets[num_prompt:]]
    for event in events:
        tally.push(event)
    (whole,) = Completion(call).fold(tally)["choices"]
    assert (whole["text"], whole["logprobs"]["text_offset"]) == (text + answer, offsets)
    assert [each["id"] for each in whole["logprobs"]["content"]] == [0, 1, 2]


def test_milliseconds_of_progress_are_an_integer() -> None:
    told = render_progress(Progress(0, 1, 2, 0, 0.0126))["time_ms"]
    assert (told, type(told)) == (13, int)


def test_metrics_have_the_names_its_tests_look_for() -> None:
    reply = ask("GET", "/metrics")
    assert ("process-start-time-unix", "77") in reply.headers
    lines = reply.body.splitlines()
    assert "llamacpp:n_tokens_max 123" in lines
    assert "llamacpp:n_busy_slots_per_decode 2.5" in lines
    assert "llamacpp:spec_decode_num_drafts_total 3" in lines
    assert "# TYPE llamacpp:n_tokens_max counter" in lines
    assert "# TYPE llamacpp:n_busy_slots_per_decode gauge" in lines
    idle, busy = Stats(), Stats(prompt_tokens=50, cached_tokens=10, prompt_s=4.0)
    for stats, rate in ((idle, 0), (busy, 10)):
        assert f"llamacpp:prompt_tokens_seconds {rate}\n" in metrics.page(stats)
    by_place = 'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 2\n'
    assert by_place in metrics.page(Stats(draft_accepted_at=(3, 2)))
    assert "per_pos" not in metrics.page(idle)


def test_the_model_is_listed_once_with_its_aliases() -> None:
    listed = ask("GET", "/models").body
    assert [(each["id"], each["aliases"]) for each in listed["data"]] == [("tiny", ("fim", "code"))]
    assert [each["name"] for each in listed["models"]] == ["tiny"]


def test_props_tell_the_servers_defaults() -> None:
    settings = ask("GET", "/props").body["default_generation_settings"]["params"]
    assert (settings["seed"], settings["temperature"]) == (42, 0.8)


def test_props_tell_no_seed_as_answers_do() -> None:
    class Unseeded(OneCard):
        defaults: Mapping[str, Any] = {}

    settings = ask("GET", "/props", Unseeded()).body["default_generation_settings"]["params"]
    assert settings["seed"] == 2**32 - 1


@pytest.mark.parametrize(("path", "field"), [("/tokenize", "content"), ("/detokenize", "tokens")])
def test_null_is_no_text_and_no_tokens(path: str, field: str) -> None:
    ask("POST", path)
    with pytest.raises(InvalidField, match=f"{field} must be .*null"):
        ask("POST", path, **{field: None})


def test_model_path_is_a_path() -> None:
    assert ask("GET", "/props").body["model_path"] == "tiny.gguf"


def test_props_tell_whether_answers_come_again() -> None:
    told = ask("GET", "/props").body
    assert (told["deterministic"], told["system_fingerprint"]) == (True, INFO.fingerprint)


@pytest.mark.parametrize(
    "path",
    [
        "/props",
        "/embedding",
        "/embeddings",
        "/v1/embeddings",
        "/rerank",
        "/reranking",
        "/v1/systemone",
    ],
)
def test_what_is_not_supported_says_so_as_the_server_does(path: str) -> None:
    with pytest.raises(Unsupported) as refused:
        ask("POST", path)
    assert LLAMACPP.error(refused.value).status == 501
    assert LLAMACPP.error(refused.value).body["error"]["type"] == "not_supported_error"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidField("x"), "invalid_request_error"),
        (UnknownModel("x"), "not_found_error"),
        (EngineFault("x"), "server_error"),
        (Unavailable("x"), "unavailable_error"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else type(value).__name__,
)
def test_errors_have_llama_cpps_types(error: SegueError, kind: str) -> None:
    reply = LLAMACPP.error(error)
    assert reply.body["error"] == {"code": reply.status, "message": "x", "type": kind}


def test_code_around_a_gap_is_text_even_where_it_spells_a_special_token() -> None:
    infill = next(each for each in LLAMACPP.operations if each.path == "/infill")
    body = {"input_prefix": "a", "prompt": "<|b|>", "input_suffix": "<|c|>"}
    request = infill.parse(body, STAMP).request
    assert request.prompts == (Prompt(("a", "<|b|>"), parse_special=False),)
    assert request.infill is not None
    assert request.infill.suffix == Prompt(("<|c|>",), parse_special=False)


def test_bos_is_the_token_of_an_empty_text() -> None:
    assert call_of(prompt="").request.prompts[0].parts == ("",)
    told = ask("POST", "/tokenize", AddsBos(), content="", add_special=True).body
    assert told == {"tokens": [1]}
    assert ask("POST", "/tokenize", AddsBos(), content=[], add_special=True).body == {"tokens": []}


@pytest.mark.parametrize("prompt", [{"text": "x"}, [{"text": "x"}]])
def test_a_prompt_object_of_another_kind_is_told_as_it_was_sent(prompt: object) -> None:
    """It was said to be null, which nobody had sent."""
    with pytest.raises(InvalidField, match='not an object with "text"'):
        call_of(prompt=prompt)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([{"prompt_string": 5}], r"'prompt\[0\].prompt_string': value must be a string, not 5"),
        ({"prompt_string": ["a"]}, "'prompt.prompt_string': value must be a string, not a list"),
        ([5, {"prompt_string": "a"}], "'prompt': value must be token ids with texts, or a list of"),
    ],
)
def test_the_text_of_a_prompt_object_is_no_token_id(prompt: object, words: str) -> None:
    """The number in [{"prompt_string": 5}] was read as the prompt's only token."""
    with pytest.raises(InvalidField, match=words):
        call_of(prompt=prompt)


def test_prompt_objects_are_prompts_of_their_own() -> None:
    request = call_of(prompt=[{"prompt_string": "a"}, "b", [1, "c"]]).request
    assert [prompt.parts for prompt in request.prompts] == [("a",), ("b",), ((1,), "c")]


def test_a_content_that_is_no_text_is_told_so() -> None:
    """An empty text, which is allowed, was said not to be."""
    with pytest.raises(
        InvalidField, match="content must be a string, or a list of token ids and str"
    ):
        ask("POST", "/tokenize", content=5)


@pytest.mark.parametrize(
    "wrong",
    [
        "hi",
        [],
        ["hi"],
        [{"content": "hi"}],
        [{"role": "user"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"type": "image_url"}]}],
    ],
)
def test_messages_that_are_none(wrong: Any) -> None:
    with pytest.raises(Mismatch):
        Messages().read(wrong)


def test_adapters_are_listed_and_their_scales_set() -> None:
    service = OneCard()
    (sql, b) = ask("GET", "/lora-adapters", service).body
    assert (sql["id"], sql["path"], sql["scale"], b["id"]) == (0, "sql.gguf", 0.0, 1)
    done = ask("POST", "/lora-adapters", service, lora=[{"id": 1, "scale": 0.25}])
    assert done.body == {"success": True}
    assert [each["scale"] for each in ask("GET", "/lora-adapters", service).body] == [0.0, 0.25]


@pytest.mark.parametrize(
    ("lora", "words"),
    [
        ("x", "lora must be a list"),
        ([1], r"lora\[0\] must be an object"),
        ([{"id": 0}], r"lora\[0\].scale must be a number"),
        ([{"id": 0, "scale": "1"}], r"lora\[0\].scale must be a number"),
        ([{"id": "sql", "scale": 1}], r"lora\[0\].id must be an integer"),
        ([{"id": 7, "scale": 1}], "ids are 0 to 1"),
    ],
)
def test_what_is_wrong_with_a_list_of_adapters(lora: Any, words: str) -> None:
    with pytest.raises(InvalidField, match=words) as caught:
        ask("POST", "/lora-adapters", OneCard(), lora=lora)
    assert caught.value.param in ("lora", "id")


@pytest.mark.parametrize(("way", "counted"), [("ranked", [2, 58]), ("fim", [2, 3])])
def test_a_streams_usage_counts_what_a_search_drew(way: InfillMethod, counted: list[int]) -> None:
    """As that of a whole answer. Each choice tells its own tokens, the last one those of dropped candidates too."""
    (operation, *_) = LLAMACPP.operations
    call = operation.parse({"prompt": "p", "suffix": "s", "n": 2}, STAMP)
    events: list[Event] = [
        Prompted(0, (5, 6), 1, infill=way),
        Finished(1, "stop", "eos", 2),
        Finished(0, "stop", "eos", 3),
        Done(Usage(2, 60, 1), 7),
    ]
    renderer = Completion(call)
    chunks = [chunk for event in events for chunk in renderer.push(event)]
    assert [chunk["choices"][0]["index"] for chunk in chunks] == [1, 0]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == counted
    assert [chunk["usage"]["prompt_tokens"] for chunk in chunks] == [2, 2]
