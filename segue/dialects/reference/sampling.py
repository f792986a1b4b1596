"""docs/sampling.md: what every dialect calls a sampling parameter and takes when it is not given.

Defaults are what an empty request is read as, so they cannot differ from what is served.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from segue.dialects.base import Dialect, Operation, Stamp
from segue.dialects.fields.table import Field
from segue.dialects.reference.tables import as_table, spell
from segue.types import CUT_FIRST, SCALE_FIRST, Sampling

_NAMED_ORDERS = {SCALE_FIRST: "scale first", CUT_FIRST: "cut first"}

_INTRODUCTION = """\
# Sampling

<!-- Written by `segue dialects --sampling > docs/sampling.md`: change the tables in segue/dialects instead. -->

A token is drawn in steps. The field `samplers` sets their order; a step that it does not name does not act.
`logit_bias` cannot be named there, just as in llama.cpp: biases are added before all steps (only mistral.rs' order
has another place for them), and bans always hold. Log-probabilities are of the raw logits, before all steps;
llama.cpp's `post_sampling_probs` asks for the distribution after them. The random numbers of a draw are a pure
function of seed, choice, position and purpose.

There are two default orders:
"""

_SCOPES = """\
## What the penalties look at

The repetition penalty and DRY look at prompt and output, in every system that has them. Presence and frequency
penalties look at the output only in OpenAI's API, vLLM, mistral.rs and llamafile, and at prompt and output in
llama.cpp and Ollama; `penalize_prompt` in the table below is that difference. The window (`repeat_last_n`) counts
tokens back from the end of what they look at; -1 is all of it, 0 turns them off.

The repetition penalty divides (or multiplies) a logit before presence and frequency penalties are subtracted; in
mistral.rs, after (`repetition_last`).

## Parameters

A cell has the field's name in that dialect and its default. A default without a name is fixed; an empty cell means that
the dialect has no such field and the step does not act. In llama.cpp's, vLLM's and mistral.rs' dialects a model may
have defaults of its own: [defaults.md](defaults.md). The names on the left are Segue's own.
"""


def sampling_markdown(dialects: Sequence[Dialect], steps: Mapping[str, str]) -> str:
    """`steps`: what each step does, in words."""
    parts = [_INTRODUCTION]
    parts += [f"- **{name}**: {', '.join(order)}" for order, name in _NAMED_ORDERS.items()]
    parts.append("\n## Steps\n")
    parts.append(
        as_table(["step", "what it does"], [[f"`{n}`", what] for n, what in steps.items()])
    )
    parts.append(_SCOPES)
    ends = [_main(dialect) for dialect in dialects]
    head = ["parameter", "range", *(dialect.name for dialect in dialects)]
    names = [field.name for field in msgspec.structs.fields(Sampling)]
    parts.append(as_table(head, [_row(name, ends) for name in names]))
    return "\n".join(parts)


def _main(dialect: Dialect) -> tuple[dict[str, Field], Sampling]:
    """Its rows by core name, and what a request without any of them is read as."""
    operation = dialect.operations[0]
    rows = {row.target.removeprefix("sampling."): row for row in operation.table.rows}
    return rows, _empty(operation)


def _empty(operation: Operation) -> Sampling:
    stamp = Stamp(request_id="", public_id="", created=0, seed=0, fingerprint="")
    return operation.parse({"model": "m", "prompt": "p"}, stamp).request.sampling


def _row(name: str, ends: list[tuple[dict[str, Field], Sampling]]) -> list[str]:
    neutral = getattr(Sampling(), name)
    cells = []
    for rows, empty in ends:
        row, value = rows.get(name), getattr(empty, name)
        shown = "random" if name == "seed" else _spelled(value)
        if row is not None:
            cells.append(f"`{row.name}` {shown}")
        else:
            acts = name == "order" or (value != neutral and name != "seed")
            cells.append(shown if acts else "")
    root = ends[0][0].get(name)
    return [f"`{name}`", spell(root.kind.schema()) if root else "", *cells]


def _spelled(value: Any) -> str:
    if isinstance(value, tuple) and value in _NAMED_ORDERS:
        return _NAMED_ORDERS[value]
    text = msgspec.json.encode(value).decode()
    return "none" if text in ("null", "{}", "[]") else text
