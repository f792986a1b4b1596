"""The state of a constraint in one sequence: the allowed next tokens, updated with each token.

Each mask is found on threads of its own, because no limit keeps a hostile grammar from being slow at some point of
the text.

Sequences of one grammar share a lexer, and how close that is to its limits depends on everything it has read, for other
requests too. An answer must not depend on these. So if the shared lexer runs into a limit, a new one that has read
only this sequence's text decides what is allowed. It has the same room for states, and enough fuel to make them all: it
can read whatever the shared one could.
"""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue.engine.constraints.compiler import Grammar, Mask, Matcher, reason
from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.threads.mask_threads import MaskThreads, SlowSearch
from segue.engine.constraints.vocabulary import Vocabulary
from segue.engine.seam import Logits
from segue.errors import EngineFault

log = logging.getLogger("segue.constraint")

_THREADS = MaskThreads()
_SCOUT_S = 0.005  # the longest wait for a mask that only a draft needs
_LEXER_S = 0.002  # the longest wait of the thread of all requests for a lexer that others use

Coming = Future[Mask | None]
Told = Callable[[NDArray[np.uint8] | None], None]


class LookaheadGuide:
    """A copy of a guide that goes ahead of it along a draft. The guide takes its masks over if it comes that way."""

    def __init__(self, guide: "Guide", grammar: Grammar, mask: Mask | None) -> None:
        self._guide = guide
        self._grammar = grammar
        self._matcher = guide.matcher.deep_copy()
        self._mask = mask
        # The tokens that it accepted, and the mask after each.
        self.found: list[tuple[int, Mask]] = []

    def apply(self, row: Logits) -> bool:
        """Ban all tokens that are not allowed next. False at a dead end."""
        return self._mask is not None and _restrict(row, self._grammar, self._mask)

    def accept(self, token: int) -> bool:
        """Accept an allowed token. False if the draft should end here: nothing may follow, or the mask is late."""
        forced = () if self._mask is None else self._mask.forced
        is_read = _read_now(self._grammar, self._matcher, (token,)) is not None
        if not is_read or self._matcher.is_error() or self._matcher.is_stopped():
            return False
        if len(forced) > 1 and forced[0] == token:
            self._mask = Mask(None, forced[1:])
            self.found.append((token, self._mask))
            return True
        coming = _asked(self._grammar, _sure_mask, self._grammar, self._matcher)
        if not _has_come(coming, _SCOUT_S):
            self._guide.is_slow = True
            return False
        self._mask = _found(coming)
        if self._mask is None:
            return False
        self.found.append((token, self._mask))
        return True


class Guide:
    """The state of one sequence in a grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self.matcher = grammar.matcher.deep_copy()
        self._tokens: list[int] = []
        # As `may_end` tells; what a lexer says that has failed is set right with the mask.
        self._ends = [bool(self.matcher.is_accepting())]
        self.is_slow = False  # masks take too long for drafts
        self._scouted: list[tuple[int, Mask]] = []  # what the last scout found, from here on
        self._mask: Mask | None = grammar.first  # None at a dead end
        self._failure: BaseException | None = None  # why the mask could not be found
        self._has_failed = False  # at the last token, as the lexer had run into a limit
        self._unread: list[int] = []  # accepted, but to be read with the mask: the grammar is slow
        self._is_unsure = False  # whether the text is over: the mask will tell
        self._is_due = False  # the mask after the last token: nobody has asked for it yet
        self._coming: Coming | None = None
        # A mask that was asked for before its tokens were accepted, and after how many of them it is.
        self._early: tuple[int, Coming] | None = None

    @property
    def is_ready(self) -> bool:
        self._begin()
        if self._coming is None or not self._coming.done():
            return self._coming is None
        self._begin()  # it may be an early one that has just come and has to be found again
        return self._coming.done()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the mask, at most so long; returns whether it is ready. If it could not be found, `apply` raises."""
        self._begin()
        while self._coming is not None:
            if not _has_come(self._coming, timeout_s):
                return False
            coming, self._coming = self._coming, None
            self._mask = _found(coming)
            was_early, self._early = self._early is not None, None
            if self._mask is None and was_early:
                self._is_due = True
                self._begin()
            else:
                self._note_failure(coming.exception())
        return True

    def _note_failure(self, failure: BaseException | None) -> None:
        self._failure = failure
        if failure is not None:
            log.error("the mask of a constraint could not be found", exc_info=failure)

    def tell(self, told: Told, num_forced: int = 0) -> None:
        """Have the mask found now. `told` is called on any thread with what it allows: None at a dead end or failure.

        `num_forced`: the mask is wanted after so many of the forced tokens, which are sure to be accepted.
        """
        vocabulary = self._grammar.vocabulary
        try:
            coming = self._after(num_forced) if num_forced else self._begun()
        except Exception:  # not for the caller, who tells others too: `apply` raises if it matters
            log.exception("the mask of a constraint could not be asked for")
            return told(None)
        if isinstance(coming, Future):
            coming.add_done_callback(lambda done: told(_bits(_found(done), vocabulary)))
        else:
            told(_bits(coming, vocabulary))

    def _begun(self) -> Coming | Mask | None:
        self._begin()
        return self._mask if self._coming is None else self._coming

    def _after(self, num_forced: int) -> Coming | Mask | None:
        forced = self.forced
        if num_forced < len(forced):
            return Mask(None, forced[num_forced:])
        if num_forced > len(forced):
            raise RuntimeError("a guide does not know what follows tokens that are not forced")
        matcher, tokens = self.matcher.deep_copy(), (*self._unread, *forced)
        coming = _asked(self._grammar, _mask_after, self._grammar, matcher, tokens)
        self._early = (len(self._tokens) + num_forced, coming)
        return coming

    @property
    def forced(self) -> tuple[int, ...]:
        """Tokens that the constraint forces next."""
        self.wait()
        return () if self._mask is None else self._mask.forced

    def apply(self, row: Logits) -> bool:
        """Ban all tokens that are not allowed next. False at a dead end. Raises EngineFault if they are not known."""
        self.wait()
        if self._failure is not None:
            raise EngineFault("the engine failed on the constraint of this request")
        return self._mask is not None and _restrict(row, self._grammar, self._mask)

    def scout(self) -> LookaheadGuide | None:
        """For a draft that begins here; None if this grammar's masks take too long for that."""
        self.wait()
        if self.is_slow or self._grammar.is_slow:
            return None
        scout = LookaheadGuide(self, self._grammar, self._mask)
        self._scouted = scout.found
        return scout

    def accept(self, token: int) -> bool:
        """Accept an allowed token. True if the text is complete and nothing may follow, as far as that is known."""
        forced = self.forced
        self._tokens.append(token)
        self._unread.append(token)
        ends = _read_now(self._grammar, self.matcher, self._unread)
        is_late = ends is None
        if ends is not None and self._has_read(ends):
            return True
        is_unsure = self._is_unsure = is_late or self._has_failed
        scouted = self._scouted.pop(0) if self._scouted else None
        if len(forced) > 1 and forced[0] == token:
            self._mask = Mask(None, forced[1:])  # whatever has become of the lexer
        elif scouted is not None and scouted[0] == token and not is_unsure:
            self._mask = scouted[1]
        elif self._early is not None and self._early[0] == len(self._tokens) and not is_unsure:
            self._coming = self._early[1]
        else:
            self._is_due, self._early = True, None
        if scouted is not None and scouted[0] != token:
            self._scouted = []
        return False

    def _has_read(self, ends: list[bool]) -> bool:
        """The matcher has read what is accepted. True if the text is complete and nothing may follow."""
        self._ends += ends
        self._unread.clear()
        self._has_failed = self.matcher.is_error()
        return bool(self.matcher.is_stopped()) and not self._has_failed

    @property
    def knows_end(self) -> bool:
        """Whether `is_over` can be told now: `accept` could tell it, or the mask has come."""
        return not self._is_unsure or self.is_ready

    @property
    def is_over(self) -> bool:
        """Whether nothing may follow, if `accept` could not tell: a lexer ran into a limit, or the grammar is slow."""
        return self._is_unsure and not self.forced and self._mask is None and self.is_whole

    @property
    def was_over(self) -> bool:
        """As `is_over`, and `accept` would have told it, had it had the lexer or the time."""
        return self.is_over and not self._has_failed

    def _begin(self) -> None:
        """Start the mask only when it is needed: until then the step thread needs the processor for others."""
        early = self._coming if self._early is not None else None
        if early is not None and early.done() and _found(early) is None:
            self._is_due, self._early = True, None  # a fresh lexer may know more
        if self._is_due:
            self._is_due, self._coming = False, _asked(self._grammar, self._next_mask)

    def may_end(self) -> list[bool]:
        """Entry i: whether the first i tokens are a complete text of the grammar."""
        if self._is_unsure:
            self.wait()
        return self._ends + [False] * len(self._unread)  # those are forced, and others follow

    @property
    def is_whole(self) -> bool:
        """Whether the tokens so far are a complete text."""
        return self.may_end()[-1]

    def _next_mask(self) -> Mask | SlowSearch | None:
        grammar = self._grammar
        if self._unread and self._has_read(_read(grammar, self.matcher, self._unread)):
            return None
        mask = _sure_mask(grammar, self.matcher)
        if mask is None and not grammar.is_sound:
            grammar.is_spoilt = True
            return SlowSearch(self._mask_alone)
        if mask is None and not grammar.is_private and grammar.wants_items(self.matcher):
            return SlowSearch(self._mask_alone)
        return self._noted(mask)

    def _noted(self, mask: Mask | None) -> Mask | None:
        if mask is None:
            log.info("a constraint came to a dead end: %s", reason(self.matcher.get_error()))
        return mask

    def _mask_alone(self) -> Mask | None:
        """What a lexer allows that has read this text only. It always allows the same, even if it runs into a limit."""
        try:
            grammar = self._grammar.alone()
        except GrammarError:
            return None
        grammar.lexer.is_slow |= self._grammar.is_slow
        self._grammar, self.matcher = grammar, grammar.matcher.deep_copy()
        self._ends = [self._ends[0], *_read(grammar, self.matcher, self._tokens)]
        grammar.lexer.is_slow = True  # as it may use much fuel
        return None if self.matcher.is_stopped() else self._noted(grammar.mask(self.matcher))


def _asked(grammar: Grammar, find: Callable[..., Mask | SlowSearch | None], *args: Any) -> Coming:
    """Have a mask found on a thread. Never raises: if no thread can be had, who waits for the mask gets the error."""
    try:
        return _THREADS.submit(grammar.lexer, find, *args)
    except Exception as error:
        failed: Coming = Future()
        failed.set_exception(error)
        return failed


def _sure_mask(grammar: Grammar, matcher: Matcher) -> Mask | None:
    """The next mask. None at a dead end, or if forced tokens may be missing: at a limit they end without an error."""
    mask = grammar.mask(matcher)
    return None if mask is not None and mask.forced and not grammar.is_sound else mask


def _mask_after(grammar: Grammar, matcher: Matcher, tokens: tuple[int, ...]) -> Mask | None:
    """The mask after these tokens. None as above, and if nothing may follow them."""
    _read(grammar, matcher, tokens)
    is_over = matcher.is_error() or matcher.is_stopped()
    return None if is_over else _sure_mask(grammar, matcher)


def _has_come(coming: Coming, timeout_s: float | None) -> bool:
    """Whether it is done within that time. It may have failed: that is not raised here, where others wait too."""
    try:
        coming.exception(timeout_s)
    except TimeoutError:
        return False
    return True


def _found(done: Coming) -> Mask | None:
    """The mask, or None: at a dead end, or if it could not be found, which `Guide.wait` notes."""
    is_there = not done.cancelled() and done.exception() is None
    return done.result() if is_there else None


def _bits(mask: Mask | None, vocabulary: Vocabulary) -> NDArray[np.uint8] | None:
    """What it allows, as bits; None at a dead end."""
    if mask is None:
        return None
    return vocabulary.only(mask.forced[0]) if mask.allowed is None else mask.allowed


def _read_now(grammar: Grammar, matcher: Matcher, tokens: Iterable[int]) -> list[bool] | None:
    """Have them read on the thread of all requests. None if that may take long, or the lexer is in use elsewhere."""
    if grammar.is_slow or not grammar.lexer.in_use.acquire(timeout=_LEXER_S):
        return None
    try:
        return _read(grammar, matcher, tokens)
    finally:
        grammar.lexer.in_use.release()


def _read(grammar: Grammar, matcher: Matcher, tokens: Iterable[int]) -> list[bool]:
    """Have them read. Each entry: whether the text is complete after that token."""
    ends: list[bool] = []
    for token in tokens:
        grammar.read(matcher, token)
        ends.append(bool(matcher.is_accepting()))
    return ends


def _restrict(row: Logits, grammar: Grammar, mask: Mask) -> bool:
    if mask.allowed is not None:
        grammar.vocabulary.restrict(row, mask.allowed)
    else:
        token = mask.forced[0]
        logit = row[token]
        row.fill(-np.inf)
        row[token] = logit
    return True
