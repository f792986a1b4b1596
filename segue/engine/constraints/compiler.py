"""Compiles constraints, and caches the results for later requests with the same constraint.

Nothing here trusts a grammar: compiling has limits and happens on threads of its own. With
`vocabulary.py` and the matchers of `lazy/` the only place that knows llguidance.
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
from segue.engine.constraints.lazy.fitting import Fitting, LimitMet
from segue.engine.constraints.lazy.triggers import TriggerError, WantedWords, never_fits
from segue.engine.constraints.lazy.word_matcher import WordMatcher
from segue.engine.constraints.lazy.word_watch import WordWatch
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
_AMBIGUOUS = (_TOO_FEW_ITEMS, "Parser Error: Current row has")
_TOO_LONG = (
    "lexer precomputation failed"  # its words too, which name limits that no caller can change
)
_TOO_MUCH = "too much work"
_PANIC = (
    "the compiler failed on it, as it may where alternatives are one text, put together in two ways"
)
_WHOLE_REGEX = "at 1(8): "  # the place of one that is all of a grammar: says nothing
_SHOWN_CHARS = 20  # of a regular expression, from where it is wrong
_LAZY_ADVICE = (
    "; patterns that may begin within each other are dear, and so are texts beside a pattern or before a grammar that "
    "names tokens: let them begin alike, with what is rare in them, such as <call:, or have texts and tokens alone"
)
_WORD_CHARS = 8  # of a grammar's text, for a byte that is looked for before it: some 260 bytes
_stack_size = threading.Lock()  # it is set for the whole process, while a thread may be started
_MAKERS = ThreadPoolExecutor(2, "compile", initializer=step_back)


class Panic(GrammarError):
    """The compiler failed, which says nothing of the grammar."""


class Mask(NamedTuple):
    """The tokens that may come next. If tokens are forced, only the first of them may, and `allowed` is None."""

    allowed: NDArray[np.uint8] | None  # a bit a token, the lowest first
    forced: tuple[int, ...] = ()


Matcher = llguidance.LLMatcher | WordMatcher


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
            raise _error(failed.get_error())
        self.matcher: Matcher = self._whole
        self.first = self._whole_first
        if written.words is not None:
            self.matcher = self._after_words(written.words)
            self.first = self.mask(self.matcher)

    def _make(self, max_items: int) -> llguidance.LLMatcher | None:
        """Make the matcher and its first mask. Returns a matcher that failed, if one did."""
        limits = _limits(FRESH_FUEL if self.is_private else STEP_FUEL, max_items)
        self._whole = _matcher(self.vocabulary.tokenizer, self.text, limits)
        first = self._whole_first = None if self._whole.is_error() else self.mask(self._whole)
        trial = self._whole.deep_copy()
        if first is not None and first.forced:
            self.read(trial, first.forced[0])
        return trial if first is None or trial.is_error() else None

    def _after_words(self, wanted: WantedWords) -> WordMatcher:
        """A matcher of free text until a trigger comes. Raises GrammarError, of a trigger TriggerError."""
        watch = WordWatch(wanted.words, wanted.tokens, self.vocabulary)
        fitting = Fitting(self._whole, self.vocabulary, watch.given[0][1], self.lexer)
        try:
            unfit = [n for n, text in watch.given if not text or not fitting.can_begin(text)]
        except LimitMet as met:
            raise GrammarError(reason(str(met))) from None
        if unfit:
            raise never_fits(wanted.params[min(unfit)])
        matcher = WordMatcher(watch, fitting, self.vocabulary)
        matcher.compute_bitmask()  # the first reads all tokens, which says nothing of the grammar
        if matcher.is_error():
            raise GrammarError(reason(matcher.get_error()))
        return matcher

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

    def read(self, matcher: Matcher, token: int) -> None:
        if not self.is_slow:
            matcher.consume_token(token)
            return
        to_read = matcher.to_read(token) if isinstance(matcher, WordMatcher) else [(matcher, token)]
        for reader, each in to_read:
            read_beside(reader, each, self.vocabulary.tokenizer)

    def wants_items(self, matcher: Matcher) -> bool:
        """Whether this matcher failed because it may make few items, and more would not take too long."""
        is_short = matcher.is_error() and _TOO_FEW_ITEMS in matcher.get_error()
        return is_short and self._last_s < _DEAR_S

    @property
    def is_sound(self) -> bool:
        """Whether its lexer has run into no limit. Once it has, it fails every guide that uses it."""
        probe = self._whole.deep_copy()
        if self._whole_first is not None and self._whole_first.forced:  # such a mask asks no lexer
            probe.consume_token(self._whole_first.forced[0])
        else:
            probe.compute_bitmask()
        return not probe.is_error()

    def mask(self, matcher: Matcher) -> Mask | None:
        """None if nothing may follow what the matcher has read."""
        began_s = time.thread_time()
        mask = _mask(matcher)
        self._last_s = time.thread_time() - began_s
        # All tokens were tried: none takes longer to read.
        self.lexer.is_slow |= self._last_s > _SLOW_S
        return mask


def _grammar(written: GrammarText, vocabulary: Vocabulary) -> Grammar:
    try:
        return Grammar(written, vocabulary)
    except Panic:
        if written.otherwise is None:
            raise
    return Grammar(written._replace(text=written.otherwise), vocabulary)


def _mask(matcher: Matcher) -> Mask | None:
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
        raise Panic(_PANIC) from None


def _error(error: str) -> GrammarError:
    said = reason(error)
    return Panic(said) if said == _PANIC else GrammarError(said)


def reason(error: str) -> str:
    """The compiler's message without its internals."""
    if error.startswith("NoExtensionBias"):
        return "no text matches it"
    if any(said in error for said in _AMBIGUOUS):
        return "it is too ambiguous: there are too many ways to read what may come next"
    if error.startswith("panic"):
        return _PANIC
    if error.startswith(_TOO_LONG):
        return "it takes too much work to find what may come first"
    said = _wrong_regex(error) or error.split("\n<", 1)[0].split("<backtrace>", 1)[0]
    return said.strip()[:1000]


def _wrong_regex(error: str) -> str:
    """Where in the grammar, why, and where in the expression, which itself may be long; nothing of other errors."""
    place, is_regex, rest = error.partition("invalid regex ")
    _, is_told, told = rest.partition(" (in regex): ")
    if not (is_regex and is_told):
        return ""
    first, *lines = told.split("\n")
    if first != "regex parse error:" or len(lines) < 3:
        return f"{place}{first}"
    expression, marks, why = lines[:3]
    at = expression[marks.find("^") :][:_SHOWN_CHARS]
    return f"{place}{why.removeprefix('error: ')}, at " + (f'"{at}"' if at else "the end")


def _size(written: GrammarText) -> int:
    words = () if written.words is None else written.words.words.values()
    return len(written.text) + _WORD_CHARS * sum(len(word.encode()) for word in words)


class Compiler:
    """Compiles for one model. Safe to use from several threads."""

    def __init__(
        self, vocab: Vocab, width: int, is_brief: bool = False, is_followed: bool = False
    ) -> None:
        """`is_brief`: there may be no constraint at all, and nobody else waits while there is a first.

        `is_followed`: another engine has the grammar's text, so that it must say everything.
        """
        self._is_followed = is_followed
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
            written = grammar_text(constraint, vocabulary, self._is_followed)
            grammar = _grammar(written, vocabulary)
        except TriggerError as error:
            raise InvalidField(f"{error.param}: {error}", error.param.partition("[")[0]) from None
        except GrammarError as error:
            advice = _LAZY_ADVICE if constraint.triggers and _TOO_MUCH in f"{error}" else ""
            why = f"{error}".removeprefix(_WHOLE_REGEX if constraint.kind == "regex" else "")
            said = f"{constraint.param}{constraint.within}: {why}{advice}{read_as(constraint)}"
            raise InvalidField(said, constraint.param) from None
        self._keep(constraint, grammar, _size(written))
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
