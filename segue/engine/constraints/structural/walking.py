"""What builders of formats share: where a format stands, and who builds those within it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from segue.engine.constraints.free_text import MAX_STOP_CHARS
from segue.engine.constraints.grammar import GrammarError, Node, Ref, Rules
from segue.engine.constraints.schemas.arguments import Arguments
from segue.engine.constraints.schemas.values import Json
from segue.engine.constraints.tokens import TokenSets


class At(NamedTuple):
    """Where a format stands."""

    place: str
    ends: tuple[str, ...] = ()  # of the tag around it; none is empty
    end_tokens: frozenset[int] = frozenset()
    depth: int = 0

    def inside(self, name: str) -> "At":
        return self._replace(place=f"{self.place}.{name}", depth=self.depth + 1)

    def error(self, message: str) -> GrammarError:
        return GrammarError(f"{self.place}: {message}")

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """An error within names this place."""
        try:
            yield
        except GrammarError as error:
            raise self.error(str(error)) from None

    def stops(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Texts to look out for in free text. Raises GrammarError."""
        found = tuple(dict.fromkeys(texts))
        if "" in found:
            raise self.error("triggers and excludes must not be empty")
        if sum(map(len, found)) > MAX_STOP_CHARS:
            raise self.error(
                f"triggers, excludes and ends to look out for have more than {MAX_STOP_CHARS} characters"
            )
        return found


class SchemaStyle(NamedTuple):
    """How a schema is to be written."""

    whitespace: str | None = None  # between parts; None: as usual
    excludes: tuple[str, ...] = ()  # from strings and names
    any_order: bool = False  # of properties


class Schemas(Protocol):
    """Reads schemas. Raises GrammarError."""

    def text(self, schema: Json, style: SchemaStyle) -> str: ...

    def arguments(self, schema: Json, style: SchemaStyle) -> Arguments: ...


class Walker(Protocol):
    """Builds the formats within a format."""

    @property
    def schemas(self) -> Schemas: ...

    @property
    def tokens(self) -> TokenSets: ...

    @property
    def any_order(self) -> bool:
        """Whether schemas may ask for properties in any order."""
        ...

    def format(self, value: Json, at: At, kind: str | None = None) -> Node:
        """`kind`: the only one that is fine here; then it need not be told."""
        ...

    def kind(self, value: Json, at: At, kind: str | None = None) -> str:
        """The type of a format, which counts as one. Raises GrammarError."""
        ...

    def rule(self, body: Node) -> Node:
        """A rule for it; the same for the same."""
        ...

    def new(self) -> Ref:
        """A rule that is defined later."""
        ...

    def define(self, place: Ref, body: Node) -> None: ...

    def grammar(self, rules: Rules) -> Node:
        """The root of a grammar of its own."""
        ...
