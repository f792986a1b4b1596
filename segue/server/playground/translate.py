"""The same request in another dialect, found by the targets of both tables: hardly a field is mapped by hand.

A translated body is parsed by the dialect's own rows and compared with the original request, so that every field that
the dialect cannot express is named.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import structs

from segue.dialects.base import Dialect, Operation, Stamp
from segue.dialects.fields.closed_schemas import WITH_SCHEMAS, others_too
from segue.dialects.fields.kinds import Mismatch
from segue.dialects.fields.table import Field
from segue.dialects.fields.token_fields import NUM_DROPPED, NUM_KEPT, SHIFTS
from segue.errors import RequestError
from segue.types import CompletionRequest, Constraint, ModelInfo, Sampling, Shift

_STAMP = Stamp(request_id="", public_id="", created=0, seed=0, fingerprint="")
# Identity, bookkeeping, and what each system reports in its own way: not compared.
_APART = {"request_id", "model", "sampling", "tenant", "cache_salt", "score_stops", "tells_ids"}
_OF_TRIGGERS = {"shape.grammar_lazy", "shape.grammar_triggers"}
_CUTS = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "top_n_sigma": 0.0}


class Translation(NamedTuple):
    dialect: str
    path: str
    body: dict[str, Any]
    lost: tuple[str, ...]  # fields of the request that the dialect cannot express


def translate(
    body: dict[str, Any],
    source: Operation,
    dialect: Dialect,
    info: ModelInfo | None = None,
    *,
    text: str = "",
) -> Translation:
    """The body in another dialect. Raises RequestError if the body itself is invalid.

    `info`: of the model, if it is loaded. Where its own defaults count, a field must be given to be as wanted.
    `text`: what a prompt with token ids says, for dialects whose prompts are text alone.
    """
    wanted = source.parse(body, _STAMP).request
    if source in dialect.operations:
        return Translation(dialect.name, f"/{dialect.name}{source.path}", body, ())
    operation = _operation(dialect, wanted)
    translated = _beginning(body, operation, dialect.name)
    is_text = bool(text) and not _is_readable(translated, operation)
    if is_text:
        translated = _beginning({**body, "prompt": text}, operation, dialect.name)
    wires = _wires(body, source)
    has_triggers = _put_triggers(translated, operation, wires)
    for target in _differing(translated, operation, wanted, info):
        if target == "shift":
            _put_shift(translated, operation, wanted.shift)
        if target == "constraint" and _is_lazy(wanted) and not has_triggers:
            continue  # it would hold from the first token
        for row in operation.table.rows:
            if row.target == target and (found := _wire(row, wires, wanted)) is not None:
                _put(translated, row.name, found)
                break
    known = {row.name: row.target for row in operation.table.rows}
    if wanted.logprobs is not None and "logprobs" not in known.values() and "logprobs" in known:
        translated |= {
            "logprobs": True,
            "top_logprobs": wanted.logprobs,
        }  # Ollama has two fields for this
    if "stream" in known:
        translated["stream"] = bool(body.get("stream", False))
    left = _differing(translated, operation, wanted, info)
    names = {row.target: row.name for row in reversed(source.table.rows)}
    names |= source.table.read(body).given
    if is_text:
        names["prompts"] = "token ids in the prompt"
    lost = dict.fromkeys(names.get(target, target.rpartition(".")[2]) for target in left)
    prefix = f"/{dialect.name}{operation.path}"
    return Translation(dialect.name, prefix, translated, tuple(lost))


def _operation(dialect: Dialect, wanted: CompletionRequest) -> Operation:
    """The operation to use: the system's native path if it has one."""
    gap = next((each for each in dialect.operations if each.path == "/infill"), None)
    if gap and wanted.infill is not None:
        return gap
    native = [each for each in dialect.operations if each.is_native and each is not gap]
    return dialect.operations[0] if dialect.name == "llamastack" or not native else native[0]


def _beginning(body: dict[str, Any], operation: Operation, name: str) -> dict[str, Any]:
    """The fields that every request to this path needs."""
    translated: dict[str, Any] = {"model": body.get("model") or "default"}
    if operation.path == "/infill":
        return translated | {"input_prefix": body["prompt"], "input_suffix": body.get("suffix", "")}
    translated["prompt"] = body["prompt"]
    return translated | {"raw": True} if name == "ollama" else translated


def _is_readable(translated: dict[str, Any], operation: Operation) -> bool:
    try:
        operation.parse(translated, _STAMP)
    except RequestError:
        return False
    return True


def _wires(body: dict[str, Any], source: Operation) -> dict[str, Any]:
    """Target → the value as written in the body."""
    draft = source.table.read(body)
    written: dict[str, Any] = {}
    for target, name in draft.given.items():
        value: Any = body
        for part in name.split("."):
            value = value[part]
        written[target] = value
    return written


def _put(translated: dict[str, Any], name: str, value: Any) -> None:
    group, dot, inner = name.partition(".")
    if dot:
        translated.setdefault(group, {})[inner] = value
    else:
        translated[group] = value


def _put_shift(translated: dict[str, Any], operation: Operation, wanted: Shift | None) -> None:
    """What dialects tell in up to three fields."""
    values: dict[str, Any] = {SHIFTS: wanted is not None}
    if wanted is not None:
        values |= {NUM_KEPT: wanted.num_kept, NUM_DROPPED: wanted.num_dropped}
    for row in operation.table.rows:
        if row.target in values:
            _put(translated, row.name, values[row.target])


def _put_triggers(translated: dict[str, Any], operation: Operation, wires: dict[str, Any]) -> bool:
    """What makes a grammar begin later, which is no part of the request by itself. Whether there is a field for it."""
    rows = [row for row in operation.table.rows if row.target in _OF_TRIGGERS]
    for row in rows:
        if row.target in wires:
            _put(translated, row.name, wires[row.target])
    return bool(rows)


def _is_lazy(request: CompletionRequest) -> bool:
    return request.constraint is not None and bool(request.constraint.triggers)


# --- whether two requests ask for the same -------------------------------------------------------


def _differing(
    translated: dict[str, Any],
    operation: Operation,
    wanted: CompletionRequest,
    info: ModelInfo | None,
) -> list[str]:
    """The targets that this body does not set as wanted, and that matter."""
    try:
        call = operation.parse(translated, _STAMP)
    except RequestError as error:
        rows = [row for row in operation.table.rows if error.param in row.spellings]
        return [row.target for row in rows] or ["prompts"]
    if info is not None:
        call = operation.fill(call, info)
    has, wants = _values(call.request), _values(wanted)
    return [t for t in wants if not _is_same(has[t], wants[t]) and _matters(t, wanted)]


def _values(request: CompletionRequest) -> dict[str, Any]:
    values = {
        name: getattr(request, name)
        for name in CompletionRequest.__struct_fields__
        if name not in _APART
    }
    # Whether text around a gap may spell special tokens is each system's own rule.
    values["prompts"] = tuple(prompt.parts for prompt in request.prompts)
    values["shift"] = request.shift and structs.replace(request.shift, optional=False)
    return values | {
        f"sampling.{name}": _setting(request.sampling, name) for name in Sampling.__struct_fields__
    }


def _setting(sampling: Sampling, name: str) -> Any:
    """For comparison: every top_n_sigma that is off is the same."""
    value = getattr(sampling, name)
    return max(value, 0.0) if name == "top_n_sigma" else value


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Constraint) and isinstance(other, Constraint):
        return _plain(one) == _plain(other)
    return bool(one == other)


def _plain(constraint: Constraint) -> tuple[Any, ...]:
    """A constraint for comparison: without the field's name, and without the spacing of its JSON."""
    triggers = [(each.kind, each.value, each.token) for each in constraint.triggers]
    return *_text(constraint), triggers


def _text(constraint: Constraint) -> tuple[str, Any]:
    kind, value = constraint.kind, constraint.value
    if kind in WITH_SCHEMAS and isinstance(value, str):
        try:
            return kind, json.loads(others_too(value, kind))
        except ValueError:
            return kind, value
    if kind == "grammar" and isinstance(value, str) and "::=" in value:
        kind = "gbnf"
    return kind, value


def _matters(target: str, wanted: CompletionRequest) -> bool:
    if target in ("echo", "repetition"):
        return bool(getattr(wanted, target))  # a system may do that without being asked
    if target == "shift":  # an answer with a bound seldom fills the context
        return wanted.shift is not None or wanted.max_tokens is None
    rule = _MATTERS.get(target)
    return rule is None or rule(wanted.sampling)


def _has_order(sampling: Sampling) -> bool:
    """Whether another order of the steps could change the result."""
    if (sampling.logit_bias or sampling.text_bias) and _penalizes(sampling):
        return True
    cuts = sum(_setting(sampling, name) != neutral for name, neutral in _CUTS.items())
    is_scaled = sampling.temperature != 1
    return sampling.temperature > 0 and cuts + is_scaled > 1


def _penalizes(sampling: Sampling) -> bool:
    neutral = Sampling()
    names = ("presence_penalty", "frequency_penalty", "repetition_penalty")
    return any(getattr(sampling, name) != getattr(neutral, name) for name in names)


_MATTERS: dict[str, Callable[[Sampling], bool]] = {
    **{f"sampling.{name}": lambda sampling: sampling.temperature > 0 for name in _CUTS},
    "sampling.order": _has_order,
    "sampling.penalty_window": _penalizes,
    "sampling.penalize_prompt": _penalizes,
    "sampling.repetition_last": lambda sampling: (
        sampling.repetition_penalty != 1
        and (sampling.presence_penalty, sampling.frequency_penalty) != (0, 0)
    ),
    "sampling.dry_window": lambda sampling: sampling.dry_multiplier != 0,
}


# --- writing a value -----------------------------------------------------------------------------


def _wire(row: Field, wires: dict[str, Any], wanted: CompletionRequest) -> Any:
    """The value for this row's field; None if it cannot express the request."""
    value = _values(wanted)[row.target]
    for wire in _candidates(row, wires, value):
        try:
            read = row.kind.read(wire)
        except (Mismatch, TypeError):
            continue
        if isinstance(read, Constraint) and isinstance(value, Constraint):
            read = structs.replace(read, triggers=value.triggers)  # other rows give it these
        if _is_same(read, value):
            return wire
    return None


def _candidates(row: Field, wires: dict[str, Any], value: Any) -> Iterator[Any]:
    if row.target in wires:
        yield wires[row.target]
    if isinstance(value, Constraint):
        yield from _constraint_forms(value)
    elif isinstance(value, tuple):
        yield list(value)
    elif isinstance(value, dict):
        yield {str(key): entry for key, entry in value.items()}
    elif value is None:
        yield -1
    else:
        yield value if not hasattr(value, "__struct_fields__") else structs.asdict(value)


def _constraint_forms(constraint: Constraint) -> Iterator[Any]:
    """Every system's form of a constraint; the right one is the one that parses back to the same."""
    kind, value = constraint.kind, constraint.value
    plain = list(value) if isinstance(value, tuple) else value
    if kind == "json_schema" and isinstance(plain, str):
        try:
            schemas = [json.loads(plain), json.loads(others_too(plain))]
        except ValueError:
            return
        for schema in schemas:
            yield schema
            yield {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
            yield {"json": schema}
            yield {"type": "json_schema", "value": schema}
        return
    if kind == "structural_tag" and isinstance(plain, str):
        yield {kind: plain}
        yield {kind: others_too(plain, kind)}
        return
    yield plain
    yield {"type": kind, "value": plain}
    yield {kind: plain}
    if kind == "json_object":
        yield from ({"type": "json_object"}, "json", {"json_object": True})
