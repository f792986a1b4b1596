"""The part of Go's templates that prompts are written in: {{ .Name }}, {{ if .Name }} … {{ else }} … {{ end }}.

Everything else is refused by name. Text after {{ .Response }} is left out: that is where the model goes on.
"""

from collections.abc import Iterator, Mapping

from segue.errors import InvalidField

MAX_CHARS = 64 * 1024
MAX_PROMPT_CHARS = 32 * 2**20  # it may name the prompt thousands of times
RESPONSE = ".Response"
VALUES = (".System", ".Prompt", ".Suffix")


def names(source: str) -> set[str]:
    """What a template for these values names of them. Raises InvalidField if it cannot be rendered."""
    render(source, dict.fromkeys(VALUES, ""))
    return {word for _, action in _split(source) for word in action.split() if word[0] == "."}


def render(source: str, values: Mapping[str, str]) -> str:
    """`values` by name. Raises InvalidField."""
    shown: list[str] = []
    branches = [True]  # whether each open {{ if }}, and the text around them, is taken
    is_over, size = False, 0
    for text, action in _split(source):
        is_taken = all(branches) and not is_over
        if is_taken:
            shown.append(text)
        words = action.split()
        match words:
            case []:
                pass
            case ["if", name]:
                branches.append(bool(_value(name, values)))
            case ["else"] if len(branches) > 1:
                branches[-1] = not branches[-1]
            case ["end"] if len(branches) > 1:
                branches.pop()
            case [name] if name.startswith("."):
                value = _value(name, values)
                if is_taken:
                    size += len(value)
                    _check(size)
                    shown.append(value)
                    is_over = name == RESPONSE
            case _:
                raise _refused(action)
    if len(branches) > 1:
        raise InvalidField("template has an {{ if }} without its {{ end }}", "template")
    return "".join(shown)


def _value(name: str, values: Mapping[str, str]) -> str:
    if name == RESPONSE:
        return ""
    if name not in values:
        raise _refused(name)
    return values[name]


def _check(size: int) -> None:
    if size > MAX_PROMPT_CHARS:
        message = f"template would make more than {MAX_PROMPT_CHARS} characters of what it is given"
        raise InvalidField(message, "template")


def _refused(action: str) -> InvalidField:
    return InvalidField(
        f"template has {{{{ {action[:40]} }}}}: only .System, .Prompt, .Suffix and .Response, alone "
        "or in if, else and end, are understood",
        "template",
    )


def _split(source: str) -> Iterator[tuple[str, str]]:
    """Text with the action that follows it. A dash inside the braces trims the text next to it."""
    if len(source) > MAX_CHARS:
        raise InvalidField(f"template must be at most {MAX_CHARS} characters", "template")
    first, *rest = source.split("{{")
    text = first
    for part in rest:
        action, closing, after = part.partition("}}")
        if not closing:
            raise InvalidField("template has {{ without }}", "template")
        if action.startswith("-"):
            text, action = text.rstrip(), action[1:]
        if action.endswith("-"):
            after, action = after.lstrip(), action[:-1]
        is_comment = action.strip().startswith("/*")
        yield text, "" if is_comment else action.strip()
        text = after
    yield text, ""
