"""What may come next under a constraint: compiled once a text, followed token by token in each sequence.

The only room that knows llguidance. Nothing here trusts a grammar: compiling has limits and happens on threads of its
own, and so does each mask, because no limit keeps a hostile grammar from being slow at some point of the text.
"""

import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import llguidance
import numpy as np
from numpy.typing import NDArray

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.grammar_text import grammar_text
from segue.engine.seam import Logits, Vocab
from segue.errors import InvalidField
from segue.types import Constraint

log = logging.getLogger("segue.constraint")

MAX_CACHED = 64  # compiled grammars
MAX_CACHED_CHARS = 1_048_576  # of their texts, together

_LIMITS = llguidance.LLParserLimits(
    initial_lexer_fuel=300_000,
    step_lexer_fuel=50_000,
    max_lexer_states=50_000,
    verbose_errors=False,
)
_MAX_FORCED = 64  # tokens known ahead
_STACK_BYTES = 128 * 1024 * 1024  # llguidance calls itself for every rule that uses another
_stack_size = threading.Lock()  # it is set for the whole process, while a thread may be started
_NICENESS = 10


def step_back() -> None:
    """Let the calling thread yield to those that run the model."""
    if sys.platform == "linux":  # where that is a thread's own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


_MAKERS = ThreadPoolExecutor(2, "compile", initializer=step_back)
_MASKERS = ThreadPoolExecutor(4, "mask")

# A byte of a bit mask → what to add to its eight logits.
_PENALTIES = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(0),
    np.float32(-np.inf),
)


class Mask(NamedTuple):
    """What may come next: where tokens are forced, only the first of them."""

    allowed: NDArray[np.uint8] | None  # a bit a token, the lowest first
    forced: tuple[int, ...] = ()


class Guide:
    """One sequence's way through a grammar."""

    def __init__(self, grammar: "Grammar") -> None:
        self._grammar = grammar
        self._matcher = grammar.matcher.deep_copy()
        self._tokens: list[int] = []
        self._mask: Mask | None = grammar.first  # None at a dead end
        self._is_due = False  # the mask after the last token: nobody has asked for it yet
        self._coming: Future[Mask | None] | None = None

    @property
    def is_ready(self) -> bool:
        self._begin()
        return self._coming is None or self._coming.done()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it is known by then what may come next."""
        self._begin()
        if self._coming is not None:
            try:
                self._mask = self._coming.result(timeout_s)
            except TimeoutError:
                return False
            self._coming = None
        return True

    @property
    def forced(self) -> tuple[int, ...]:
        """Tokens that must come next."""
        self.wait()
        return () if self._mask is None else self._mask.forced

    def apply(self, row: Logits) -> bool:
        """Forbid what may not come next. False at a dead end."""
        self.wait()
        if self._mask is None:
            return False
        if self._mask.allowed is not None:
            self._grammar.vocabulary.restrict(row, self._mask.allowed)
        else:
            token = self._mask.forced[0]
            logit = row[token]
            row.fill(-np.inf)
            row[token] = logit
        return True

    def accept(self, token: int) -> bool:
        """Go on with a token that was allowed. True if the text is complete and nothing may follow."""
        forced = self.forced
        self._tokens.append(token)
        self._matcher.consume_token(token)
        has_failed = self._matcher.is_error()
        if self._matcher.is_stopped() and not has_failed:
            return True
        if len(forced) > 1 and forced[0] == token and not has_failed:
            self._mask = Mask(None, forced[1:])
        else:
            self._is_due = True
        return False

    def _begin(self) -> None:
        """Not before somebody asks: until then the step thread draws for others, and would have to share with masks."""
        if self._is_due:
            self._is_due, self._coming = False, _MASKERS.submit(self._next_mask)

    def may_end(self) -> list[bool]:
        """After so many of its tokens, from none on: whether they are a whole text of the grammar."""
        matcher = self._grammar.matcher.deep_copy()
        matcher.reset()
        ends = [bool(matcher.is_accepting())]
        for token in self._tokens:
            matcher.consume_token(token)
            ends.append(bool(matcher.is_accepting()))
        return ends

    def _next_mask(self) -> Mask | None:
        mask = self._grammar.mask(self._matcher)
        if mask is None and not self._grammar.is_private:
            # Sequences share a lexer, and one that ran into its limits has spoilt it for all of them.
            self._grammar.is_spoilt = True
            try:
                self._grammar = self._grammar.alone()
            except GrammarError:
                return None
            self._matcher = self._grammar.matcher
            self._matcher.consume_tokens(self._tokens)
            mask = self._grammar.mask(self._matcher)
        if mask is None:
            log.info("a constraint came to a dead end: %s", _reason(self._matcher.get_error()))
        return mask


class Witness:
    """Follows a text that another engine holds to the grammar: no masks, only whether it is complete."""

    def __init__(self, grammar: "Grammar") -> None:
        self._matcher = grammar.matcher.deep_copy()

    def accept(self, token: int) -> bool:
        """True if the text is complete and nothing may follow."""
        self._matcher.consume_token(token)
        return bool(self._matcher.is_stopped() and not self._matcher.is_error())

    @property
    def is_whole(self) -> bool:
        return bool(self._matcher.is_accepting())


def wait_for(guides: Iterable[Guide], timeout_s: float) -> None:
    """Until all are ready, but no longer than that."""
    pending = [guide for guide in guides if not guide.is_ready]
    deadline = time.monotonic() + timeout_s
    for guide in pending:
        guide.wait(max(0.0, deadline - time.monotonic()))


class Grammar:
    """A compiled constraint. Guides are made from it; they share what its lexer learns."""

    def __init__(self, text: str, vocabulary: "_Vocabulary", is_private: bool = False) -> None:
        """Raises GrammarError."""
        self._text = text
        self.vocabulary = vocabulary
        self.is_private = is_private  # to one guide
        self.is_spoilt = False  # its lexer ran into a limit: good for no new guide
        self.matcher = _matcher(vocabulary.tokenizer, text)
        self.first = None if self.matcher.is_error() else self.mask(self.matcher)
        trial = self.matcher.deep_copy()
        if self.first is not None and self.first.forced:
            trial.consume_token(self.first.forced[0])
        if self.first is None or trial.is_error():
            raise GrammarError(_reason(trial.get_error()))

    def guide(self) -> Guide:
        return Guide(self)

    def alone(self) -> "Grammar":
        return Grammar(self._text, self.vocabulary, is_private=True)

    def mask(self, matcher: llguidance.LLMatcher) -> Mask | None:
        """None if nothing may follow what the matcher has read."""
        allowed = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():
            return None
        if np.bitwise_count(allowed).sum() == 1:
            forced = tuple(matcher.compute_ff_tokens()[:_MAX_FORCED])
            if forced:
                return Mask(None, forced)
        return Mask(allowed)


def _matcher(tokenizer: llguidance.LLTokenizer, text: str) -> llguidance.LLMatcher:
    """On a thread whose stack is deep enough for any text that is let in."""
    with _stack_size:
        usual = threading.stack_size(_STACK_BYTES)
        try:
            made = _MAKERS.submit(
                llguidance.LLMatcher, tokenizer, text, log_level=0, limits=_LIMITS
            )
        finally:
            threading.stack_size(usual)
    try:
        return made.result()
    except BaseException as error:  # a panic of the compiler is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        log.warning("the compiler of constraints failed: %r", error)
        raise GrammarError("the compiler failed on it") from None


def _reason(error: str) -> str:
    """The compiler's words without its internals."""
    if error.startswith("NoExtensionBias"):
        return "no text matches it"
    return error.split("\n<", 1)[0].split("<backtrace>", 1)[0].strip()[:1000]


class _Vocabulary:
    """A model's tokens as llguidance knows them."""

    def __init__(self, vocab: Vocab, width: int) -> None:
        # As wide as a row of logits, which may exceed the vocabulary.
        self._penalties = np.full((-(-width // 8), 8), -np.inf, np.float32)
        spelling = _Spelling(vocab)
        self.tokenizer = llguidance.LLTokenizer(
            spelling, eos_token=sorted(vocab.end_tokens) or None
        )
        spelling.greedy = self.tokenizer.greedy_tokenize

    def restrict(self, row: Logits, allowed: NDArray[np.uint8]) -> None:
        """Forbid all but those; ids beyond the vocabulary too. For one thread: room for it is kept."""
        known = allowed[: len(self._penalties)]  # it comes in whole words
        np.take(_PENALTIES, known, axis=0, out=self._penalties[: known.size], mode="clip")
        row += self._penalties.ravel()[: row.size]


class _Spelling(llguidance.TokenizerWrapper):
    """What llguidance asks of a tokenizer. It is called to spell bytes that must come next."""

    is_tokenizer_wrapper = True

    def __init__(self, vocab: Vocab) -> None:  # everything that the parent's would set is set here
        self._vocab = vocab
        self.tokens = [vocab.piece(token) for token in range(vocab.size)]
        # Special tokens are never part of a text, and that must hold for all that end one.
        ends = vocab.end_tokens
        self.special_token_ids = [t for t in range(vocab.size) if vocab.is_control(t) or t in ends]
        self.bos_token_id = vocab.bos
        self.eos_token_id = min(ends, default=vocab.size) if vocab.eos is None else vocab.eos
        self.greedy: Callable[[str], list[int]] = lambda text: []  # set once there is a tokenizer

    def __call__(self, text: str) -> list[int]:
        wanted = text.encode()
        tokens = self._vocab.tokenize(text, False, False)
        if self._bytes(tokens) == wanted:
            return tokens
        # Some vocabularies put a space before every text: give them a line break to put it before.
        tokens = self._vocab.tokenize("\n" + text, False, False)
        for cut in range(1, min(3, len(tokens))):
            if self._bytes(tokens[cut:]) == wanted:
                return tokens[cut:]
        return self.greedy(text)

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self.tokens[token] for token in tokens)


class Compiler:
    """Compiles for one model. Safe to use from several threads."""

    def __init__(self, vocab: Vocab, width: int) -> None:
        # Now, not with the first constraint: it takes a quarter of a second in which no other thread can run.
        self._vocabulary = _Vocabulary(vocab, width)
        self._cache: OrderedDict[Constraint, tuple[Grammar, int]] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, constraint: Constraint) -> Grammar | None:
        """The grammar, if it has been compiled lately."""
        with self._lock:
            found = self._cache.get(constraint)
            if found is None or found[0].is_spoilt:
                return None
            self._cache.move_to_end(constraint)
            return found[0]

    def compile(self, constraint: Constraint) -> Grammar:
        """Slow. Raises InvalidField with the reason and the caller's name of the field."""
        grammar = self.known(constraint)
        if grammar is not None:
            return grammar
        try:
            text = grammar_text(constraint)
            grammar = Grammar(text, self._vocabulary)
        except GrammarError as error:
            raise InvalidField(f"{constraint.param}: {error}", constraint.param) from None
        self._keep(constraint, grammar, len(text))
        return grammar

    def _keep(self, constraint: Constraint, grammar: Grammar, size: int) -> None:
        with self._lock:
            self._cache[constraint] = grammar, size
            while (
                len(self._cache) > MAX_CACHED
                or sum(size for _, size in self._cache.values()) > MAX_CACHED_CHARS
            ):
                self._cache.popitem(last=False)
