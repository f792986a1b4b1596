"""Ollama, as of 0.33: its own `/api/generate`, and the OpenAI-compatible route beside it."""

from segue.dialects.base import Dialect, Operation, Reply
from segue.dialects.ollama import text
from segue.dialects.ollama.differences import DIFFERENCES
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
