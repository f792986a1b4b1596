"""Defaults of the server (`--default NAME=VALUE`): a sampling field in any dialect's spelling, for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import UNSET

from segue.dialects.fields.kinds import Mismatch
from segue.dialects.fields.table import Draft, Field, Table, complain
from segue.errors import SetupError

# What a server may set besides everything about sampling: nothing that changes what is asked or returned.
_TARGETS = frozenset({"max_tokens", "stop", "min_indent", "time_limit_s", "use_cache"})

Defaults = Mapping[str, Any]
"""Values of the core by target."""


def read_defaults(texts: Iterable[str], tables: Sequence[Table]) -> Defaults:
    """From NAME=VALUE, the value in JSON or as plain text. Raises SetupError."""
    rows = _rows(tables)
    defaults: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise SetupError(f"--default must be NAME=VALUE, as temperature=0.7 is, not {text!r}")
        if name not in rows:
            near = get_close_matches(name, rows, 1)
            hint = f"did you mean {near[0]}?" if near else "any dialect's will do"
            raise SetupError(f"--default {text}: {name!r} is no sampling field; {hint}")
        target, read = _read(name, rows[name], _value(value))
        if read is not UNSET:
            defaults[target] = read
    return defaults


def _rows(tables: Sequence[Table]) -> dict[str, list[Field]]:
    """Every row that may have a default, by each of its names. Options of Ollama go without `options.` too."""
    rows: dict[str, list[Field]] = {}
    for table in tables:
        for row in table.rows:
            if row.target.startswith("sampling.") or row.target in _TARGETS:
                for name in row.spellings:
                    rows.setdefault(name.removeprefix("options."), []).append(row)
    return rows


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _read(name: str, rows: list[Field], value: Any) -> tuple[str, Any]:
    """The target and the value, read by the first dialect whose range admits the value."""
    wrong: Mismatch | None = None
    for row in rows:
        try:
            return row.target, row.kind.read(value)
        except Mismatch as mismatch:
            wrong = wrong or mismatch
    raise SetupError(f"--default {complain(name, wrong)}" if wrong else f"--default {name}")


def fill_in(draft: Draft, defaults: Defaults) -> None:
    """Set what the request leaves out. A field that was sent with its value for "none" (seed -1) is not left out."""
    for target, value in defaults.items():
        if target not in draft.given and target not in draft.waived:
            draft.values[target] = value


def keep(draft: Draft, defaults: Defaults) -> None:
    """Set it again after the rules, since some rules set values. By then the biases have been split."""
    fill_in(
        draft, {target: defaults[target] for target in defaults.keys() - {"sampling.logit_bias"}}
    )
