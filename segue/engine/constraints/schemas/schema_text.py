"""A JSON schema as Lark text."""

from typing import NamedTuple

from segue.engine.constraints.grammar import GrammarError, Rules
from segue.engine.constraints.lark_text import write
from segue.engine.constraints.regular import pruned
from segue.engine.constraints.schemas.documents import Documents
from segue.engine.constraints.schemas.facts import Goal
from segue.engine.constraints.schemas.keywords.expander import Expander
from segue.engine.constraints.schemas.options import Options
from segue.engine.constraints.schemas.rules.emitter import Emitter
from segue.engine.constraints.schemas.values import Json


class Written(NamedTuple):
    rules: Rules  # whose leaves are lexemes
    ignored: tuple[str, ...]  # pointers to keywords without effect, where the caller allowed that

    @property
    def text(self) -> str:
        return write(self.rules)


def schema_text(schema: Json, options: Options) -> Written:
    """Raises GrammarError for what cannot be enforced, and for schemas that nothing fits."""
    documents = Documents(schema)
    expander = Expander(documents, options)
    emitter = Emitter(expander, options)
    rules = pruned(emitter.all((Goal(documents.same(documents.root)),)))
    if rules is None:
        raise GrammarError(expander.reason(emitter.void_places()))
    return Written(rules, tuple(expander.ignored))
