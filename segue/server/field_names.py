"""Names of fields in refusals: the engine has one name for a field, and a client the one that it sent."""

from collections.abc import Iterator

from segue.dialects.base import Call
from segue.errors import SegueError

_OWN = {"prompts": "prompt"}  # where the engine's name is not the last part of the target


def engine_name(target: str) -> str:
    """What the engine calls the field that is read into `target`."""
    return _OWN.get(target, target.rpartition(".")[2])


def as_sent(error: SegueError, call: Call) -> SegueError:
    """The error with the name under which the field was sent."""
    own = error.param
    sent = next((name for known, name in _names(call) if known == own), own)
    if own is None or sent is None or sent == own:
        return error
    rest = error.message.removeprefix(own)
    message = sent + rest if rest != error.message and rest[:1] in " .:[" else error.message
    return type(error)(message, sent, error.retry_after_s, error.details)


def _names(call: Call) -> Iterator[tuple[str, str]]:
    """The engine's name and the client's, of each field that was sent."""
    constraint = call.request.constraint
    for target, name in call.given.items():
        if target == "constraint" and constraint is not None:
            yield constraint.param, name
        else:
            yield engine_name(target), name
