"""The root dialect: OpenAI's shapes, and the fields of all six systems."""

from segue.dialects.base import Dialect, Operation, Reply
from segue.dialects.openai.fields import ROOT, RULES
from segue.dialects.openai.pages import PAGES
from segue.dialects.rendering.context_overflow import as_openai
from segue.dialects.rendering.text_completion import TextCompletion
from segue.errors import SegueError

ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def error_reply(error: SegueError) -> Reply:
    fallback = "invalid_request_error" if error.status < 500 else "server_error"
    detail = {
        "message": as_openai(error),
        "type": ERROR_TYPES.get(error.status, fallback),
        "param": error.param,
        "code": error.code,
    }
    return Reply({"error": detail}, error.status)


OPENAI = Dialect(
    name="openai",
    system="the root dialect",
    operations=(Operation("/v1/completions", "Complete prompts.", ROOT, TextCompletion, RULES),),
    companions=PAGES,
    error=error_reply,
)
