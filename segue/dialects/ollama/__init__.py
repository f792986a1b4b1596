"""Ollama, as of 0.33: its own `/api/generate`, and the OpenAI-compatible route beside it."""

from segue.dialects.base import Dialect, Difference, Operation, Reply
from segue.dialects.ollama import text
from segue.dialects.ollama.fields import (
    GENERATE,
    GENERATE_RULES,
    TEXT,
    TEXT_RULES,
    plain_name,
)
from segue.dialects.ollama.generate import Generation, word_prompt
from segue.dialects.ollama.pages import PAGES
from segue.dialects.rendering.context_overflow import as_llamacpp
from segue.errors import Overloaded, SegueError, UnknownPath, WrongMethod


def error_reply(error: SegueError) -> Reply:
    if isinstance(error, UnknownPath):
        return Reply(
            f"404 page not found. {error.hint}" if error.hint else "404 page not found", 404
        )
    if isinstance(error, WrongMethod):
        return Reply("405 method not allowed", 405)
    status = 503 if isinstance(error, Overloaded) else error.status
    return Reply({"error": as_llamacpp(error)}, status)


def root_error_reply(error: SegueError) -> Reply:
    """As `error_reply`, but always JSON: Ollama's clients ask the root for paths that only Ollama has."""
    is_unknown = isinstance(error, UnknownPath)
    return Reply({"error": error.message}, 404) if is_unknown else error_reply(error)


DIFFERENCES = (
    Difference(
        "/v1/completions never wraps the prompt in a chat template; /api/generate does, unless raw is true.",
        "Ollama wraps it there too, with no way to turn it off: what was sent is not what is completed.",
    ),
    Difference(
        "A prompt that does not fit the context is refused with 400, unless truncate is true; then an answer without a "
        "bound gets 256 tokens of the context, or half of it.",
        "Ollama cuts about half of it away and says nothing.",
    ),
    Difference(
        "A model's template is the Jinja one its file carries; the request's own may use .System, .Prompt, "
        ".Suffix, .Response, if, else and end.",
        "Ollama keeps templates in Go's language beside the model; others are refused rather than misread.",
    ),
    Difference(
        "suffix works with every model and with raw; with an empty prompt where a model has FIM tokens or BOS.",
        "Ollama refuses it where its template does not name it, drops it with raw, and loads the model instead.",
    ),
    Difference(
        "Where a model has no template, or one without a place for a system text, that text, an empty line and "
        "the prompt are asked as one.",
        "Ollama drops the system text then.",
    ),
    Difference(
        "keep_alive is the server's own setting unless the request has one.",
        "Ollama unloads after five minutes.",
    ),
    Difference(
        "A wrong type in options is a 400 that names the option.",
        "Ollama answers 500.",
    ),
    Difference(
        "With include_usage, usage is null until the last chunk.",
        "Ollama writes zeros, which clients add up.",
    ),
    Difference(
        "The id of a completion is as long as it needs to be to be unique.",
        "Ollama draws it from 999 numbers.",
    ),
    Difference(
        "A broken stream of /v1/completions ends with an error event and [DONE].",
        "Ollama sends an empty chunk and nothing more.",
    ),
    Difference(
        "digest is the SHA-256 of the model's file where it was computed; elsewhere it only tells models apart.",
        "Models here are files, not manifests of layers.",
    ),
    Difference(
        "load_duration includes waiting in the queue.",
        "Models stay loaded.",
    ),
    Difference(
        "In /api/show, context_length is the context that is served, and parameters has it as num_ctx.",
        "The file may say more, and a request cannot ask for more.",
    ),
    Difference(
        "/api/show lists tensors with verbose only, and the vocabulary and tensors of loaded models only.",
        "They are read by the model's own process, and few clients want them.",
    ),
    Difference(
        "In /api/show, the template of a model with FIM tokens begins with a comment about .Suffix.",
        "Editors look for that word, and the model's own template has no place for a suffix.",
    ),
    Difference(
        "num_ctx, num_batch, num_gpu and the other options of loading are named in x-segue-ignored.",
        "A model is loaded once, by the server's own settings.",
    ),
    Difference(
        "/api/version names the Ollama whose contract this is, and Segue's own version beside it.",
        "Clients compare it with the versions of Ollama.",
    ),
)

OLLAMA = Dialect(
    name="ollama",
    system="Ollama",
    operations=(
        Operation(
            "/api/generate",
            "Complete a prompt.",
            GENERATE,
            Generation,
            GENERATE_RULES,
            framing="ndjson",
            adapt=word_prompt,
            exact_model=True,
            plain_name=plain_name,
            is_native=True,
        ),
        Operation(
            "/v1/completions",
            "Complete a prompt.",
            TEXT,
            text.Completion,
            TEXT_RULES,
            error=text.error_reply,
            exact_model=True,
            plain_name=plain_name,
        ),
    ),
    companions=PAGES,
    error=error_reply,
    json_only=False,
    root_paths=("/api/",),
    root_error=root_error_reply,
    differences=DIFFERENCES,
)
