"""What may come next under a constraint: compiled once a text, followed token by token in each sequence.

The only room that knows llguidance. Nothing here trusts a grammar: compiling has limits and happens on threads of its
own, and so does each mask, because no limit keeps a hostile grammar from being slow at some point of the text.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from dataclasses import dataclass

import llguidance
import numpy as np
from numpy.typing import NDArray

from segue.engine.grammar import GrammarError
from segue.engine.grammar_text import grammar_text
from segue.engine.seam import Logits, Vocab
from segue.errors import InvalidField
from segue.types import Constraint

MAX_CACHED = 64  # compiled grammars
MAX_CACHED_CHARS = 1_048_576  # of their texts, together
_LIMITS = llguidance.LLParserLimits(
    step_lexer_fuel=50_000, max_lexer_states=50_000, verbose_errors=False
)
_NUM_MASK_THREADS = 4

# A byte of a bit mask → what to add to its eight logits.
_PENALTIES = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(0),
    np.float32(-np.inf),
)


@dataclass(frozen=True)
class Mask:
    """What may come next. `forced` are the tokens that must follow, as far as that is known."""

    penalties: NDArray[np.float32]  # 0 where a token may follow, minus infinity elsewhere
    forced: tuple[int, ...] = ()


class Guide:
    """One sequence's way through a grammar."""

    def __init__(self, grammar: "Grammar") -> None:
        self._grammar = grammar
        self._matcher = grammar.matcher.deep_copy()
        self._tokens: list[int] = []
        self._mask: Mask | Future[Mask | None] | None = grammar.first

    @property
    def is_ready(self) -> bool:
        return not isinstance(self._mask, Future) or self._mask.done()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether what may come next is known by then."""
        if isinstance(self._mask, Future):
            try:
                self._mask = self._mask.result(timeout_s)
            except TimeoutError:
                return False
        return True

    @property
    def mask(self) -> Mask | None:
        """None at a dead end: nothing may follow, and the text is not complete."""
        self.wait()
        return None if isinstance(self._mask, Future) else self._mask

    def apply(self, row: Logits) -> bool:
        """Forbid what may not come next. False at a dead end."""
        mask = self.mask
        if mask is not None:
            row += mask.penalties
        return mask is not None

    def accept(self, token: int) -> bool:
        """Go on with a token that was allowed. True if the text is complete and nothing may follow."""
        self._tokens.append(token)
        self._matcher.consume_token(token)
        if self._matcher.is_stopped() and not self._matcher.is_error():
            return True
        self._mask = self._grammar.pool.submit(self._next_mask)
        return False

    def _next_mask(self) -> Mask | None:
        mask = self._grammar.mask(self._matcher)
        if mask is None and self._matcher.is_error() and not self._grammar.is_private:
            # Sequences share a lexer, and one that ran into its limits has spoilt it for all of them.
            self._grammar = self._grammar.alone()
            self._matcher = self._grammar.matcher
            self._matcher.consume_tokens(self._tokens)
            mask = self._grammar.mask(self._matcher)
        return mask


class Grammar:
    """A compiled constraint. Guides are made from it; they share what its lexer learns."""

    def __init__(self, text: str, vocabulary: "_Vocabulary", is_private: bool = False) -> None:
        self._text = text
        self._vocabulary = vocabulary
        self.is_private = is_private
        self.pool = vocabulary.pool
        self.matcher = llguidance.LLMatcher(
            vocabulary.tokenizer, text, log_level=0, limits=_LIMITS
        )
        self.first: Mask | None = None if is_private else self._checked_first()

    def guide(self) -> Guide:
        return Guide(self)

    def alone(self) -> "Grammar":
        return Grammar(self._text, self._vocabulary, is_private=True)

    @property
    def is_spoilt(self) -> bool:
        """Whether its lexer has run into a limit: it must not be used again."""
        return self.mask(self.matcher.deep_copy()) is None

    def mask(self, matcher: llguidance.LLMatcher) -> Mask | None:
        allowed = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():
            return None
        penalties = _PENALTIES[self._vocabulary.widened(allowed)].ravel()
        is_forced = np.count_nonzero(penalties == 0) == 1
        forced = tuple(matcher.compute_ff_tokens()) if is_forced else ()
        return Mask(penalties[: self._vocabulary.width], forced)

    def _checked_first(self) -> Mask:
        if self.matcher.is_error():
            raise GrammarError(_reason(self.matcher.get_error()))
        first = self.mask(self.matcher)
        if first is None:
            raise GrammarError(_reason(self.matcher.get_error()))
        return first


def _reason(error: str) -> str:
    """The compiler's words without its internals."""
    if error.startswith("NoExtensionBias"):
        return "no text matches it"
    return error.split("\n<", 1)[0].split("<backtrace>", 1)[0].strip()[:1000]


class _Vocabulary:
    """A model's tokens as llguidance knows them."""

    def __init__(self, vocab: Vocab, width: int) -> None:
        self.width = width  # of a row of logits; may exceed the vocabulary
        self.pool = ThreadPoolExecutor(_NUM_MASK_THREADS, "mask")
        self._spelling = _Spelling(vocab)
        ends = sorted(vocab.end_tokens) or [self._spelling.eos_token_id]
        self.tokenizer = llguidance.LLTokenizer(self._spelling, eos_token=ends)
        self._spelling.greedy = self.tokenizer.greedy_tokenize

    def widened(self, allowed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        num_bytes = -(-self.width // 8)
        if allowed.size >= num_bytes:
            return allowed
        return np.concatenate([allowed, np.zeros(num_bytes - allowed.size, np.uint8)])


class _Spelling:
    """What llguidance asks of a tokenizer. It calls it to spell bytes that must come next."""

    is_tokenizer_wrapper = True

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab
        self.tokens = [vocab.piece(token) for token in range(vocab.size)]
        self.special_token_ids = [t for t in range(vocab.size) if vocab.is_control(t)]
        self.bos_token_id = vocab.bos
        self.eos_token_id = min(vocab.end_tokens) if vocab.eos is None else vocab.eos
        self.greedy = lambda text: []

    def __call__(self, text: str) -> Sequence[int]:
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
        self._vocab = vocab
        self._width = width
        self._vocabulary: _Vocabulary | None = None
        self._cache: OrderedDict[Constraint, tuple[Grammar, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._building = threading.Lock()

    def known(self, constraint: Constraint) -> Grammar | None:
        """The grammar, if it has been compiled lately."""
        with self._lock:
            found = self._cache.get(constraint)
            if found is None:
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
            grammar = Grammar(text, self._loaded())
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

    def _loaded(self) -> _Vocabulary:
        """Reading the vocabulary takes a moment: not before the first constraint, and only once."""
        with self._building:
            if self._vocabulary is None:
                self._vocabulary = _Vocabulary(self._vocab, self._width)
            return self._vocabulary
