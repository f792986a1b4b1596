"""Headers that tell what became of a request: its seed, what was ignored, cut or filled in; and the engine's load."""

import re
from collections.abc import Iterable, Sequence

from segue.dialects.base import Call
from segue.server.framing import Header, encode
from segue.types import Constraint, InfillMethod, Prompted, Split, Stats

MAX_NAMED_IGNORED = 32

_FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def report(call: Call) -> list[Header]:
    seed = call.request.sampling.seed
    headers = [] if seed is None else [(b"x-segue-seed", b"%d" % seed)]
    return [*headers, *ignored(call.ignored)]


def ignored(sent: Iterable[str]) -> list[Header]:
    """A header with the fields that were sent and have no effect."""
    names = [name for name in sent if _FIELD_NAME.fullmatch(name)][:MAX_NAMED_IGNORED]
    return ignored_header(names)


def ignored_header(names: Sequence[str]) -> list[Header]:
    """A second one adds to the first."""
    return [(b"x-segue-ignored", ", ".join(names).encode())] if names else []


def may_be_ignored(constraint: Constraint) -> bool:
    """Whether parts of it may have no effect, because it allows that."""
    value = constraint.value
    return constraint.lenient or (isinstance(value, str) and '"x-guidance"' in value)


def found(prompts: Iterable[Prompted]) -> list[Header]:
    """Headers that only the engine's events make known."""
    headers: list[Header] = []
    known = list(prompts)
    if num_dropped := sum(prompt.num_dropped for prompt in known):
        headers.append((b"x-segue-truncated", b"%d" % num_dropped))
    for prompt in known[:1]:  # the method is the same for all prompts
        headers += infill_header(prompt.infill)
        headers += ignored_header(prompt.ignored)
    if splits := [prompt.split for prompt in known if prompt.split]:
        headers.append((b"x-segue-infill-kept", _kept(splits)))
    return headers


def infill_header(method: InfillMethod | None) -> list[Header]:
    return [] if method is None else [(b"x-segue-infill", method.encode())]


def load_report(wanted: bytes, stats: Stats) -> list[Header]:
    """The engine's load for a balancer, in the one of ORCA's formats that it wants; in another one there is none."""
    figures = {
        "kv_cache_usage_perc": stats.cells_running / max(1, stats.cells_total),
        "num_requests_waiting": float(stats.waiting),
    }
    listed = ", ".join(f"named_metrics.{name}={value}" for name, value in figures.items())
    formats = {
        b"text": f"TEXT {listed}".encode(),
        b"json": b"JSON " + encode({"named_metrics": figures}),
    }
    told = formats.get(wanted.lower())
    return [] if told is None else [(b"endpoint-load-metrics", told)]


def _kept(splits: list[Split]) -> bytes:
    """`prefix=640/1210, suffix=128/300`: tokens that fit, of those given, over all prompts."""
    words = []
    for name in Split.__struct_fields__:
        shares = [getattr(split, name) for split in splits]
        if given := sum(share.given for share in shares):
            words.append(f"{name}={sum(share.kept for share in shares)}/{given}")
    return ", ".join(words).encode()
