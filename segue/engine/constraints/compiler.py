"""Compiles constraints, and caches the results for later requests with the same constraint.

Nothing here trusts a grammar: compiling has limits and happens on threads of its own. With `guide.py` and
`vocabulary.py` the only place that knows llguidance.
"""

import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple

import llguidance
import numpy as np
from numpy.typing import NDArray

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.grammar_text import GrammarText, grammar_text, read_as
from segue.engine.constraints.lazy.triggers import TriggerError
from segue.engine.constraints.threads.fair_queue import Lexer
from segue.engine.constraints.threads.priority import step_back
from segue.engine.constraints.token_reading import read_beside
from segue.engine.constraints.vocabulary import Vocabulary
from segue.engine.seam import Vocab
from segue.errors import InvalidField
from segue.types import Constraint

log = logging.getLogger("segue.constraint")

MAX_CACHED = 64  # compiled grammars
MAX_CACHED_CHARS = 4_194_304  # of their texts, together: each takes 20 to 40 bytes

STEP_FUEL = 50_000  # expressions that a lexer makes for one mask: some 10 ms
# The same for one that starts anew: 80 for each of its states, less than a second.
FRESH_FUEL = 4_000_000
MAX_STATES = 50_000  # of a lexer, over all that it has read
# That a parser makes for one mask: 3 ms. But in ambiguous grammars an item takes a hundred times as long.
STEP_ITEMS = 50_000
# The same where that is too little and was made fast: 0.2 s. Where identifiers are read by character, since a word may
# follow them too, a vocabulary of 50,000 tokens needs half a million.
MAX_ITEMS = 4_000_000
_DEAR_S = 0.1  # of the processor, for STEP_ITEMS: then more of them would take many seconds
_SLOW_S = 0.02  # of the processor, for one mask: then a token may take as long to read
_MAX_FORCED = 64  # tokens known ahead
_STACK_BYTES = 128 * 1024 * 1024  # llguidance calls itself for every rule that uses another
_TOO_FEW_ITEMS = "Too many items"  # llguidance's words
_TOO_LONG = (
    "lexer precomputation failed"  # its words too, which name limits that no caller can change
)
_TOO_MUCH = "too much work"
_LAZY_ADVICE = (
    "; triggers that begin in many ways, and may each begin within others, are dear: let them begin alike, with "
    "what is rare in them, such as <call:"
)
_stack_size = threading.Lock()  # it is set for the whole process, while a thread may be started
_MAKERS = ThreadPoolExecutor(2, "compile", initializer=step_back)


class Mask(NamedTuple):
    """The tokens that may come next. If tokens are forced, only the first of them may, and `allowed` is None."""

    allowed: NDArray[np.uint8] | None  # a bit a token, the lowest first
    forced: tuple[int, ...] = ()


class Grammar:
    """A compiled constraint. Guides are made from it, and share the states of its lexer."""

    def __init__(
        self, written: GrammarText, vocabulary: Vocabulary, is_private: bool = False
    ) -> None:
        """Raises GrammarError."""
        self._written = written
        self.vocabulary = vocabulary
        self.is_private = is_private  # to one guide
        self.is_spoilt = False  # its lexer ran into a limit: good for no new guide
        self.lexer = Lexer()
        self._last_s = 0.0  # of the processor, for the last mask
        failed = self._make(MAX_ITEMS if is_private else STEP_ITEMS)
        if not is_private and failed is not None and self.wants_items(failed):
            failed = self._make(MAX_ITEMS)
        if failed is not None:
            raise GrammarError(reason(failed.get_error()))

    def _make(self, max_items: int) -> llguidance.LLMatcher | None:
        """Make the matcher and its first mask. Returns a matcher that failed, if one did."""
        limits = _limits(FRESH_FUEL if self.is_private else STEP_FUEL, max_items)
        self.matcher = _matcher(self.vocabulary.tokenizer, self.text, limits)
        self.first = None if self.matcher.is_error() else self.mask(self.matcher)
        trial = self.matcher.deep_copy()
        if self.first is not None and self.first.forced:
            self.read(trial, self.first.forced[0])
        return trial if self.first is None or trial.is_error() else None

    @property
    def text(self) -> str:
        return self._written.text

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of schema keywords that have no effect, if the caller allowed that."""
        return self._written.ignored

    def alone(self) -> "Grammar":
        """The same with a lexer that has read nothing, and may take longer. Raises GrammarError."""
        return Grammar(self._written, self.vocabulary, is_private=True)

    @property
    def is_slow(self) -> bool:
        """Whether to read a token may take long: never on the thread of all requests."""
        return self.lexer.is_slow

    def read(self, matcher: llguidance.LLMatcher, token: int) -> None:
        if self.is_slow:
            read_beside(matcher, token, self.vocabulary.tokenizer)
        else:
            matcher.consume_token(token)

    def wants_items(self, matcher: llguidance.LLMatcher) -> bool:
        """Whether this matcher failed because it may make few items, and more would not take too long."""
        is_short = matcher.is_error() and _TOO_FEW_ITEMS in matcher.get_error()
        return is_short and self._last_s < _DEAR_S

    @property
    def is_sound(self) -> bool:
        """Whether its lexer has run into no limit. Once it has, it fails every guide that uses it."""
        probe = self.matcher.deep_copy()
        if self.first is not None and self.first.forced:  # such a mask asks no lexer
            probe.consume_token(self.first.forced[0])
        else:
            probe.compute_bitmask()
        return not probe.is_error()

    def mask(self, matcher: llguidance.LLMatcher) -> Mask | None:
        """None if nothing may follow what the matcher has read."""
        began_s = time.thread_time()
        mask = _mask(matcher)
        self._last_s = time.thread_time() - began_s
        # All tokens were tried: none takes longer to read.
        self.lexer.is_slow |= self._last_s > _SLOW_S
        return mask


def _mask(matcher: llguidance.LLMatcher) -> Mask | None:
    allowed = np.frombuffer(matcher.compute_bitmask(), np.uint8)
    if matcher.is_error():
        return None
    if np.bitwise_count(allowed).sum() == 1:
        forced = tuple(matcher.compute_ff_tokens()[:_MAX_FORCED])
        if forced:
            return Mask(None, forced)
    return Mask(allowed)


def _limits(step_fuel: int, max_items: int) -> llguidance.LLParserLimits:
    return llguidance.LLParserLimits(
        initial_lexer_fuel=300_000,
        step_lexer_fuel=step_fuel,
        step_max_items=max_items,
        max_lexer_states=MAX_STATES,
        verbose_errors=False,
    )


def _matcher(
    tokenizer: llguidance.LLTokenizer, text: str, limits: llguidance.LLParserLimits
) -> llguidance.LLMatcher:
    """Run on a thread with a stack that is deep enough for every accepted text."""
    with _stack_size:
        usual = threading.stack_size(_STACK_BYTES)
        try:
            made = _MAKERS.submit(llguidance.LLMatcher, tokenizer, text, log_level=0, limits=limits)
        finally:
            threading.stack_size(usual)
    try:
        return made.result()
    except BaseException as error:  # a panic of the compiler is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        log.warning("the compiler of constraints failed: %r", error)
        raise GrammarError("the compiler failed on it") from None


def reason(error: str) -> str:
    """The compiler's message without its internals."""
    if error.startswith("NoExtensionBias"):
        return "no text matches it"
    if _TOO_FEW_ITEMS in error:
        return "it is too ambiguous: there are too many ways to read what may come next"
    if error.startswith(_TOO_LONG):
        return "it takes too much work to find what may come first"
    return error.split("\n<", 1)[0].split("<backtrace>", 1)[0].strip()[:1000]


class Compiler:
    """Compiles for one model. Safe to use from several threads."""

    def __init__(self, vocab: Vocab, width: int, is_brief: bool = False) -> None:
        """`is_brief`: there may be no constraint at all, and nobody else waits while there is a first."""
        self._vocabulary = cache(partial(Vocabulary, vocab, width))
        if not is_brief:
            # Now, not with the first constraint: it takes a quarter of a second in which no other thread can run.
            self._vocabulary()
        self._cache: OrderedDict[Constraint, tuple[Grammar, int]] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, constraint: Constraint) -> Grammar | None:
        """The grammar, if it is in the cache."""
        with self._lock:
            found = self._cache.get(constraint)
            if found is None or found[0].is_spoilt or found[0].lexer.is_lost:
                return None
            self._cache.move_to_end(constraint)
            return found[0]

    def compile(self, constraint: Constraint) -> Grammar:
        """Compile the constraint; slow. Raises InvalidField with the reason and the caller's name of the field."""
        grammar = self.known(constraint)
        if grammar is not None:
            return grammar
        try:
            self._check_lost(constraint)
            vocabulary = self._vocabulary()
            written = grammar_text(constraint, vocabulary)
            grammar = Grammar(written, vocabulary)
        except TriggerError as error:
            raise InvalidField(f"{error.param}: {error}", error.param.partition("[")[0]) from None
        except GrammarError as error:
            advice = _LAZY_ADVICE if constraint.triggers and _TOO_MUCH in f"{error}" else ""
            said = f"{constraint.param}{constraint.within}: {error}{advice}{read_as(constraint)}"
            raise InvalidField(said, constraint.param) from None
        self._keep(constraint, grammar, len(written.text))
        return grammar

    def _check_lost(self, constraint: Constraint) -> None:
        """Raise GrammarError if a thread was stuck with this one: the next would be too."""
        with self._lock:
            found = self._cache.get(constraint)
        if found is not None and found[0].lexer.is_lost:
            raise GrammarError("it takes too long to find what it allows next")

    def _keep(self, constraint: Constraint, grammar: Grammar, size: int) -> None:
        with self._lock:
            self._cache[constraint] = grammar, size
            while len(self._cache) > 1 and (  # the new one stays: it may be asked for again
                len(self._cache) > MAX_CACHED
                or sum(size for _, size in self._cache.values()) > MAX_CACHED_CHARS
            ):
                self._cache.popitem(last=False)
