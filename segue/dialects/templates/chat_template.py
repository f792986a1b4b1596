"""A model's own chat template, rendered as its authors do: Jinja, in a sandbox and with bounds.

The template comes with the model's file and its inputs from callers, so neither is trusted. Jinja's sandbox
keeps it from Python's inside; the bounds here keep it from taking the server's time and memory.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, wraps
from types import FrameType
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from segue.dialects.templates import alive, growth, lenient
from segue.errors import InvalidField
from segue.types import ModelInfo

MAX_SOURCE_CHARS = 256 * 1024
MAX_STEPS = 500_000  # lines of the compiled template; about a second
MAX_S = 5.0  # of the processor: a line may take long, though what it makes is bounded

# What makes a long text from a short one.
_GROWING_METHODS = frozenset(
    {
        *("center", "encode", "expandtabs", "format", "format_map", "ljust", "rjust"),
        *("striptags", "unescape", "zfill"),
    }
)
# And what takes long with a long one.
_GROWING_FILTERS = frozenset(
    {
        *("batch", "center", "filesizeformat", "slice", "striptags", "urlize", "wordcount"),
        *("wordwrap", "xmlattr"),
    }
)
_GROWING_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": growth.added,
    "-": growth.subtracted,
    "*": growth.multiplied,
    "**": growth.raised,
    "%": lenient.modulo,
}
_OWN_FILTERS: dict[str, Callable[..., Any]] = {
    "format": lenient.filled,
    "indent": lenient.indent,
    "join": growth.join,
    "replace": growth.replace,
    "round": growth.rounded,
    "sum": growth.sum_of,
    "trim": growth.trim,
}
# What looks at no more than one entry is not weighed: templates ask for the length of messages with each of them.
_SHALLOW_FILTERS = frozenset({"count", "d", "default", "first", "last", "length"})
_SPREADING_FILTERS = frozenset({"indent", "join", "list", "sort", "title", "urlencode"})
_GROWING_GLOBALS = ("cycler", "joiner", "lipsum")

_FILE = "<template>"  # the name Jinja compiles a template without a file under
# Functions that weigh.
_UNCOUNTED = frozenset({__file__, alive.__file__, growth.__file__, lenient.__file__})


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"/", "//", *_GROWING_OPERATORS})
    code_generator_class = growth.Code
    concat = staticmethod(growth.concat)
    held = staticmethod(growth.held)
    made = staticmethod(alive.made)

    def handle_exception(self, source: str | None = None) -> NoReturn:
        """Raise it again as it is: Jinja makes tracebacks that lead back to themselves, and keep all that was made."""
        raise

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Not Jinja's safe one, which can pad a text without end."""
        return lenient.str_format(value)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        is_growing = isinstance(obj, str) and attr in _GROWING_METHODS
        is_growing = is_growing or isinstance(obj, int | float | bytes)  # (1).to_bytes(10**10)
        return not is_growing and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        growth.weighed((args, kwargs))
        return growth.taken(super().call(context, obj, *growth.check_call(obj, args), **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator in _GROWING_OPERATORS:
            return _GROWING_OPERATORS[operator](left, right)
        growth.check_numbers(left, right)
        return super().call_binop(context, operator, left, right)


def _sandbox() -> _Sandbox:
    sandbox = _Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=growth.weighed,
        optimized=False,  # that computes what is constant, before there is a bound of time
        extensions=["jinja2.ext.loopcontrols", lenient.Generation],
    )
    for name in _GROWING_FILTERS:
        del sandbox.filters[name]
    for name in _GROWING_GLOBALS:
        del sandbox.globals[name]
    sandbox.filters |= {**_OWN_FILTERS, "tojson": _to_json}
    for name in sandbox.filters.keys() - _SHALLOW_FILTERS:
        sandbox.filters[name] = _weighing(sandbox.filters[name], name in _SPREADING_FILTERS)
    sandbox.globals["raise_exception"] = _raise
    sandbox.tests["sequence"] = _is_sequence
    return sandbox


def _is_sequence(value: Any) -> bool:
    """As the test, which takes any error for a no: that the template runs for too long too."""
    return hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__")


def _weighing(found: Callable[..., Any], is_spreading: bool) -> Callable[..., Any]:
    """The filter, with what it is given and what it gives weighed."""

    @wraps(found)
    def weighing(*args: Any, **kwargs: Any) -> Any:
        growth.weighed((args, kwargs))
        for each in args if is_spreading else ():
            growth.check_spread(each)
        return growth.taken(found(*args, **kwargs))

    return weighing


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    """JSON as models expect it: Jinja's own filter escapes characters for browsers."""
    spaces = None if indent is None else min(int(indent), 8)
    return json.dumps(value, ensure_ascii=bool(options.get("ensure_ascii")), indent=spaces)


def _raise(message: Any) -> None:
    raise TemplateError(str(message))


@lru_cache(maxsize=8)
def _compiled(source: str) -> Template:
    return _sandbox().from_string(source)


def render(
    info: ModelInfo,
    messages: Sequence[Mapping[str, str]],
    now: Callable[[], float],
    add_generation_prompt: bool = True,
    enable_thinking: bool | None = None,
    variables: Mapping[str, Any] | None = None,
) -> str:
    """The prompt this model expects for these messages. Raises InvalidField, also if it has no template.

    `enable_thinking`: None leaves it to the template. `variables`: more that it finds; none takes another's place.
    """
    source = info.chat_template
    if source is None or len(source) > MAX_SOURCE_CHARS:
        raise InvalidField("the model has no chat template that can be used", "messages")

    def strftime_now(form: str) -> str:
        return datetime.fromtimestamp(now(), UTC).strftime(form[:64])

    values = {
        **(variables or {}),
        "messages": [dict(message) for message in messages],
        "add_generation_prompt": add_generation_prompt,
        "bos_token": info.bos_token,
        "eos_token": info.eos_token,
        "strftime_now": strftime_now,
    }
    if enable_thinking is not None:
        values["enable_thinking"] = enable_thinking
    with alive.counting():
        try:
            return _bounded(_compiled(source), values)
        except Exception as error:  # whatever a template does wrong, it is the template's
            reason = f"{type(error).__name__}: {_told(error)}"[:200]
        # Not before: with the error goes all that the template made.
        message = f"the model's chat template cannot render this: {reason}"
        raise InvalidField(message, "messages")


def _told(error: Exception) -> str:
    """Without the template's source."""
    return f"{error.message if isinstance(error, TemplateSyntaxError) else error}"


def _bounded(template: Template, values: dict[str, Any]) -> str:
    num_steps = num_chars = 0
    end_s = time.thread_time() + MAX_S

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal num_steps
        file = frame.f_code.co_filename
        num_steps += file not in _UNCOUNTED
        is_over = num_steps > MAX_STEPS or time.thread_time() > end_s
        # Nobody would hear of it where a generator of the template ends early, and what raises is not called again.
        if is_over and (event == "line" or file != _FILE):
            raise SecurityError("it runs for too long")
        return trace if file == _FILE else None

    pieces: list[str] = []
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for piece in template.generate(values):
            pieces.append(piece)
            num_chars += len(piece)
            if num_chars > growth.MAX_CHARS:
                raise SecurityError("it makes too long a text")
    finally:
        sys.settrace(before)
    return "".join(pieces)
