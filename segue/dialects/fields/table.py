"""Reading a JSON object by a table of rows. The rows are also the documentation of a dialect."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET

from segue.dialects.fields.kinds import Kind, Mismatch
from segue.errors import InvalidField, MalformedBody

MAX_SHOWN_CHARS = 40
MAX_SHOWN_NAMES = 4


@dataclass(frozen=True)
class Field:
    """One row. A dot in a wire name reaches into an object: "stream_options.include_usage"."""

    name: str
    kind: Kind
    doc: str
    target: str = ""  # where the value goes; "" is checked, has no effect, and is reported as such
    _: KW_ONLY
    aliases: tuple[str, ...] = ()  # in order of precedence, after the name
    default: Any = UNSET  # UNSET leaves it to the core's default
    required: bool = False
    nullable: bool = True  # whether null means the same as leaving it out

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


@dataclass
class Draft:
    """A request while it is read: values by target, and the wire name each was given under."""

    values: dict[str, Any] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    groups: frozenset[str] = frozenset()  # objects that were sent with anything in them
    waived: set[str] = field(default_factory=set)  # targets sent with their field's value for none

    def refuse(self, target: str, message: str) -> InvalidField:
        """An error about the field that gave this target, under the name the client used."""
        name = self.given.get(target, target.rpartition(".")[2])
        return InvalidField(f"{name} {message}", param=name)


Complaint = Callable[[str, Mismatch], str]
"""Words the error about a refused value: from the field's path and what was wrong with it."""


def complain(path: str, wrong: Mismatch) -> str:
    if wrong.because:
        return f"{path} must be {wrong.expected}: {wrong.because}"
    return f"{path} must be {wrong.expected}, not {show(wrong.value)}"


def show(value: Any) -> str:
    """A value as a message may repeat it: short, and escaped as JSON."""
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        return f"an object with {_listed(value)}" if value else "an empty object"
    if isinstance(value, str):
        return msgspec.json.encode(_shorten(value)).decode()
    if value is None or isinstance(value, bool):
        return msgspec.json.encode(value).decode()
    return _shorten(f"{value}")


def _listed(names: Iterable[str]) -> str:
    """A few names, each short."""
    few = [show(name) for name in islice(names, MAX_SHOWN_NAMES + 1)]
    return ", ".join([*few[:MAX_SHOWN_NAMES], "…"] if len(few) > MAX_SHOWN_NAMES else few)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"


class Table:
    """Rows by wire name. Two rows with one target exclude each other; aliases of a row do not."""

    def __init__(self, rows: tuple[Field, ...]):
        self.rows = rows
        spellings = [spelling for row in rows for spelling in row.spellings]
        if len(spellings) != len(set(spellings)):
            raise ValueError("a wire name belongs to two rows")
        self.known = frozenset(spellings)
        # Rows that say something even if their field is not sent; the others are read only if it is.
        self._always = frozenset(
            row.name for row in rows if row.required or row.default is not UNSET
        )
        self._row_names = {spelling: row.name for row in rows for spelling in row.spellings}
        self._groups = frozenset(name.partition(".")[0] for name in spellings if "." in name)

    def extend(self, *rows: Field, without: tuple[str, ...] = ()) -> "Table":
        """The table with these rows added; a row replaces an old one of the same name."""
        names = {row.name for row in rows} | set(without)
        return Table((*(row for row in self.rows if row.name not in names), *rows))

    def pick(self, *names: str) -> "Table":
        """Only the rows of these names, in this order."""
        by_name = {row.name: row for row in self.rows}
        return Table(tuple(by_name[name] for name in names))

    def with_defaults(self, **defaults: Any) -> "Table":
        """The same rows with other defaults, by wire name ("__" for a dot)."""
        wanted = {name.replace("__", "."): value for name, value in defaults.items()}
        if missing := wanted.keys() - {row.name for row in self.rows}:
            raise ValueError(f"no such rows: {missing}")
        return Table(
            tuple(replace(row, default=wanted.get(row.name, row.default)) for row in self.rows)
        )

    def with_aliases(self, **aliases: tuple[str, ...]) -> "Table":
        """The same rows under more names, by wire name; the new ones come last."""
        if missing := aliases.keys() - {row.name for row in self.rows}:
            raise ValueError(f"no such rows: {missing}")
        return Table(
            tuple(
                replace(row, aliases=(*row.aliases, *aliases.get(row.name, ())))
                for row in self.rows
            )
        )

    def read(self, body: Any, complaint: Complaint = complain) -> Draft:
        if type(body) is not dict:
            raise MalformedBody(f"The body must be a JSON object, not {show(body)}.")
        sent = dict(self._flatten(body))
        draft = Draft(groups=frozenset(group for group in self._groups if body.get(group)))
        wanted = self._always.union(self._row_names[name] for name in sent if name in self.known)
        for row in self.rows:
            if row.name in wanted:
                self._read_row(row, sent, draft, complaint)
        draft.ignored += [
            name for name in sent if name not in self.known and sent[name] is not None
        ]
        return draft

    def _flatten(self, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for key, value in body.items():
            if key not in self._groups:
                yield key, value
            elif type(value) is dict:
                yield from ((f"{key}.{inner}", inside) for inner, inside in value.items())
            elif value is not None:
                raise InvalidField(f"{key} must be an object, not {show(value)}", param=key)

    def _read_row(
        self, row: Field, sent: dict[str, Any], draft: Draft, complaint: Complaint
    ) -> None:
        for name in row.spellings:
            if name not in sent or (sent[name] is None and row.nullable):
                continue
            value = _read_value(row, name, sent[name], complaint)
            if value is UNSET:
                draft.waived.add(row.target)
                continue
            if not row.target:
                draft.ignored.append(name)
            elif row.target not in draft.given:
                draft.values[row.target] = value
                draft.given[row.target] = name
            elif draft.given[row.target] in row.spellings:
                draft.ignored.append(name)  # another spelling of the same row came first
            else:
                other = draft.given[row.target]
                raise InvalidField(f"{name} cannot be given together with {other}", param=name)
        if row.target in draft.given or not row.target:
            return
        if row.required:
            raise InvalidField(f"{row.name} is required{self._strange(sent)}", param=row.name)
        if row.default is not UNSET:
            draft.values[row.target] = row.default

    def _strange(self, sent: dict[str, Any]) -> str:
        """Names that were sent and are not known: one of them may have been meant for the one that is missing."""
        strange = [name for name in sent if name not in self.known]
        chat = "; messages are of chat, which is not served" if "messages" in strange else ""
        return f" (not known here: {_listed(strange)}{chat})" if strange else ""


def _read_value(row: Field, name: str, value: Any, complaint: Complaint) -> Any:
    try:
        return row.kind.read(value)
    except Mismatch as wrong:
        raise InvalidField(complaint(name + wrong.at, wrong), param=name) from None
    except RecursionError:
        raise InvalidField(f"{name} is nested too deeply", param=name) from None
