"""llamafile's own server, llamafiler, as of 0.9.3: one text prompt, one choice, the requested model's name copied
through. From 0.10 on llamafile has llama.cpp's server, and the dialect of that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_INT32, MAX_TOKENIZE_CHARS
from segue.dialects.base import Call, Companion, Dialect, Difference, Operation, Reply, Service
from segue.dialects.fields.kinds import Boolean, Flag, Integer, Mismatch, OnlyEmpty, Stops, Text
from segue.dialects.fields.prompt_kinds import OnePrompt
from segue.dialects.fields.table import Draft, Field, Table
from segue.dialects.openai import error_reply as openai_error
from segue.dialects.openai import fields as openai
from segue.dialects.rendering.logprobs import token_text
from segue.dialects.rendering.text_completion import TextCompletion, plain_usage
from segue.errors import PromptTooLong, SegueError, UnsupportedMedia
from segue.types import CUT_FIRST, Delta, Event, Finished, Usage

# --- fields --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnlyOne:
    """A count that must be 1 in this system."""

    def read(self, value: Any) -> Any:
        if type(value) is not int or value != 1:
            raise Mismatch("1", value)
        return UNSET

    def schema(self) -> dict[str, Any]:
        return {"const": 1}


@dataclass(frozen=True)
class ShortStops:
    """One text, or a list of up to `count` texts of `size` bytes each."""

    count: int
    size: int

    def read(self, value: Any) -> tuple[str, ...]:
        stops = Stops(self.count).read(value)
        if type(value) is list:
            for i, stop in enumerate(value):
                if len(stop.encode("utf-8", "surrogatepass")) > self.size:
                    raise Mismatch(f"a string of 1 to {self.size} bytes", stop, f"[{i}]")
        return stops

    def schema(self) -> dict[str, Any]:
        one, several = Stops(self.count).schema()["anyOf"]
        short = {**one, "maxLength": self.size}
        return {"anyOf": [one, {**several, "items": short}]}


FIELDS = openai.FIELDS.pick(
    "stream",
    "stream_options.include_usage",
    "seed",
    "user",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
).extend(
    Field("model", Text(256), "Copied into the answer.", "model", required=True),
    Field(
        "prompt", OnePrompt(may_be_empty=True), "The text to complete.", "prompts", required=True
    ),
    Field(
        "max_completion_tokens",
        Integer(-1, MAX_INT32, meaning={-1: None}, clamp=True),
        "Tokens to generate; without it, or below 0, until the context is full.",
        "max_tokens",
        aliases=("max_tokens",),
        default=None,
    ),
    Field("stop", ShortStops(4, 50), "Text that ends the answer; it is not returned.", "stop"),
    Field("n", OnlyOne(), "Choices returned: one."),
    Field("best_of", OnlyOne(), "Candidates drawn: one."),
    Field("echo", Boolean(), "No effect."),
    Field("suffix", OnlyEmpty("this system does not fill in the middle"), "Text after."),
)


def sample_as_llamafile(draft: Draft) -> None:
    """Sampling settings of llamafile that no field of a request can change. Its sampler is not handed the prompt: the
    penalties look at the last 64 tokens of the answer."""
    draft.values["sampling.order"] = CUT_FIRST
    draft.values["sampling.top_k"] = 40
    draft.values["sampling.min_p"] = 0.05
    draft.values["sampling.penalty_window"] = 64


def keep_model_name(draft: Draft) -> None:
    draft.values["shape.model"] = draft.values["model"]


RULES = (sample_as_llamafile, keep_model_name, openai.name_idle_stream_options)

# --- answers -------------------------------------------------------------------------------------


class Completion(TextCompletion):
    def __init__(self, call: Call):
        super().__init__(call)
        self._head["model"] = call.shape["model"]

    def push(self, event: Event) -> list[Any]:
        """Only the last chunk has no text."""
        has_nothing = isinstance(event, Delta) and not event.text
        return [] if has_nothing else super().push(event)

    def _ending(self, finished: Finished) -> dict[str, Any]:
        return {"finish_reason": finished.reason}

    def _usage(self, usage: Usage) -> dict[str, Any]:
        return plain_usage(usage)


def error_reply(error: SegueError) -> Reply:
    """Errors are one line of plain text."""
    status = 501 if isinstance(error, UnsupportedMedia) else error.status
    name = "out_of_context: " if isinstance(error, PromptTooLong) else ""
    return Reply(f"{name}{error.message}\r\n", status)


# --- companions ----------------------------------------------------------------------------------

TOKENIZE_FIELDS = Table(
    (
        Field("prompt", Text(MAX_TOKENIZE_CHARS), "The text to split.", "text", required=True),
        Field(
            "add_special",
            Flag(),
            "Put BOS in front, if the model wants one.",
            "add_special",
            default=True,
        ),
        Field(
            "parse_special",
            Flag(),
            'Whether "<|im_end|>" in text means the token.',
            "parse_special",
            default=False,
        ),
    )
)


async def tokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    options = {name: values[name] for name in ("add_special", "parse_special")}
    tokens = await service.tokenize("", values["text"], **options)
    pieces = await service.pieces("", tokens)
    return Reply({**options, "tokens": await service.convert(token_text, pieces)})


async def models(service: Service, _: Mapping[str, Any]) -> Reply:
    card = service.card("")
    entry = {"id": card.name, "object": "model", "created": card.created, "owned_by": "llamafile"}
    return Reply({"object": "list", "data": [entry]})


DIFFERENCES = (
    Difference(
        "Stop texts end an answer, wherever in its tokens they begin; an empty one is a 400.",
        "The system compares all of the context with them, not its end, and goes on; an empty one makes it answer 503.",
    ),
    Difference(
        "The first chunk of a stream has `text` like every other.",
        "The system's has the `delta` of a chat instead, which OpenAI's clients cannot read.",
    ),
    Difference(
        "With `include_usage` the usage comes in a chunk of its own, without choices.",
        "As its manual says; the system puts it on the last chunk with text.",
    ),
    Difference(
        "`suffix: null` and an empty suffix pass.",
        "Both mean that there is none, and clients send them; the system refuses the key itself.",
    ),
    Difference(
        "A prompt that is too long is answered with 400, like every mistake in a request.",
        "The system answers 500, which tells clients to try again.",
    ),
    Difference(
        "What is counted fits into the context, and a prompt that fills it is too long.",
        "The system counts a token more, which it draws and does not show, and answers such a prompt with that alone.",
    ),
    Difference(
        "An empty prompt is a 400 where the model has no BOS to put in front.",
        "The system draws from what the request before has left behind.",
    ),
    Difference(
        "An answer depends on its request alone.",
        "The system takes over tokens that ended the request before, with what they meant behind that prompt.",
    ),
    Difference(
        "A picture in a prompt (`data:image/png;base64,...`) is text.",
        "The system shows it to a model that takes pictures, and answers 500 where the model does not.",
    ),
    Difference(
        "Penalties count each token of the answer.",
        "The system spares the token of a line break, and counts token 0 until 64 others have come.",
    ),
    Difference(
        "Bytes at the end of an answer that are no whole character are written as U+FFFD, and those of a token in "
        "`/tokenize` as `bytes:\\xf0\\x9f`.",
        "The system writes the characters of the same numbers, so that é and the byte E9 look alike, and leaves them "
        "out at the end of a stream.",
    ),
    Difference(
        'A broken stream ends with an event `{"error": {...}}` and `data: [DONE]`.',
        "The system just closes the connection, so that half an answer looks like a whole one.",
    ),
    Difference(
        "`echo` and `logprobs` are named in `x-segue-ignored`.",
        "The system takes them in silence and has neither.",
    ),
    Difference(
        "2.0 is an integer, and `stream_options` are checked without `stream` too.",
        "JSON has one kind of number; the system refuses the one and overlooks the other.",
    ),
    Difference(
        "JSON is read as its standard has it, also without a content type, and of two fields of one name the last "
        "counts.",
        "The system also takes `\\x41` and half of a UTF-16 pair, refuses more than 20 levels, takes the first of two, "
        "and answers 501 where there is no type.",
    ),
    Difference(
        "`/tokenize` reads a query or JSON; a body of text or of a form is refused with 501.",
        "Bodies that a web page may send to any server are not read here.",
    ),
    Difference(
        "In `/tokenize`, no prompt and an `add_special` or `parse_special` that is no boolean are a 400; there is no "
        "`X-Wall-Micros`.",
        "The system answers with no tokens, and takes the default; how long requests take is in `/metrics`.",
    ),
    Difference(
        "In `/v1/models`, `id` is the name the model is served by.",
        "The system's is its file's name without the ending.",
    ),
    Difference(
        "Chat, embeddings, `/flagz` and `/slotz` are a 404, and other methods than those above a 405.",
        "Completions are what is served; the system lists its models to any method, and answers OPTIONS everywhere.",
    ),
    Difference(
        "JSON is written in one line, and text of errors is not in the status line.",
        "No client depends on either, and HTTP/2 has no status text.",
    ),
)

LLAMAFILE = Dialect(
    name="llamafile",
    system="llamafile's server (llamafiler)",
    operations=(
        Operation(
            "/v1/completions",
            "Complete a prompt.",
            FIELDS,
            Completion,
            RULES,
            stream_error=openai_error,
        ),
    ),
    companions=(
        Companion("GET", "/v1/models", "The served model.", models),
        Companion(
            "GET",
            "/tokenize",
            "Text to token strings.",
            tokenize,
            TOKENIZE_FIELDS,
            first_value_counts=True,
        ),
        Companion(
            "POST",
            "/tokenize",
            "Text to token strings; the fields may be in the query too.",
            tokenize,
            TOKENIZE_FIELDS,
            query_first=True,
            first_value_counts=True,
        ),
    ),
    error=error_reply,
    differences=DIFFERENCES,
)
