"""The token ids for what a Sampling says in text: end tokens, stop tokens, bad words. Raises InvalidField."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from segue.engine.sampling.breakers import find_breakers
from segue.engine.sampling.candidates import Index
from segue.engine.sampling.dry import Breakers
from segue.engine.seam import Texts, Vocab
from segue.engine.tokens import check_ids, infill_end, laid_texts, texts
from segue.errors import InvalidField
from segue.types import Cause, Sampling

MAX_BREAKERS = 64
MAX_BREAKER_BYTES = 256
MAX_BAD_WORDS = 1024


@dataclass(frozen=True, kw_only=True)
class TokenRules:
    ends: frozenset[int] = frozenset()  # tokens that end a text, by the model
    end: int | None = None  # the end token that the infill sampler draws
    stops: frozenset[int] = frozenset()  # tokens that end a text, by the request
    ignores_ends: bool = False  # they are not drawn
    passes_ends: bool = False  # they are drawn, and end nothing
    text_bias: dict[int, float] = field(default_factory=dict)  # biases given by text
    bad_words: tuple[tuple[int, ...], ...] = ()
    breakers: Breakers = field(default_factory=dict)
    allowed: Index | None = None  # the only tokens that may be drawn; shared by all candidates
    texts: Mapping[int, bytes] = field(default_factory=dict)  # what each token adds to the text
    laid_texts: Texts | None = None  # the same for a runner, if it is used

    @cached_property
    def causes(self) -> dict[int, Cause]:
        """The tokens that end the text, and why.

        With ignore_eos, end tokens are banned, so one is drawn only if nothing else is allowed.
        """
        if self.passes_ends:
            return dict.fromkeys(self.stops, "stop_token")
        stops = self.stops if self.ignores_ends else self.stops - self.ends
        causes: dict[int, Cause] = dict.fromkeys(self.ends, "eos")
        return causes | dict.fromkeys(stops, "stop_token")


def token_rules(
    sampling: Sampling,
    vocab: Vocab,
    vocab_size: int,
    is_constrained: bool = False,
    more_ends: frozenset[int] = frozenset(),
) -> TokenRules:
    """`vocab_size` is the width of a row of logits, which may differ from the vocabulary's own size.

    A constraint takes an end token for the end: there, what would go on after one does not draw it.
    `more_ends`: tokens that end this text besides the vocabulary's end tokens.
    """
    for name in ("stop_token_ids", "allowed_token_ids"):
        num_ids = len(getattr(sampling, name) or ())
        if num_ids > vocab_size:
            raise InvalidField(
                f"{name} has {num_ids} entries, but the model has {vocab_size} tokens", name
            )
    check_ids(sampling.logit_bias, vocab_size, "logit_bias")
    check_ids(sampling.stop_token_ids, vocab_size, "stop_token_ids")
    check_ids(sampling.allowed_token_ids or (), vocab_size, "allowed_token_ids")
    if sampling.allowed_token_ids == ():
        raise InvalidField("allowed_token_ids is empty: it must allow a token", "allowed_token_ids")
    ends = frozenset(token for token in vocab.end_tokens | more_ends if token < vocab_size)
    return TokenRules(
        ends=ends,
        end=infill_end(vocab),
        stops=frozenset(sampling.stop_token_ids),
        ignores_ends=sampling.ignore_eos or (sampling.pass_eos and is_constrained),
        passes_ends=sampling.pass_eos and not is_constrained and not sampling.ignore_eos,
        text_bias=_text_bias(sampling, vocab, vocab_size),
        bad_words=_bad_words(sampling.bad_words, vocab, vocab_size),
        breakers=_breakers(sampling, vocab),
        allowed=allowed_tokens(sampling),
        texts=texts(vocab),
        laid_texts=laid_texts(vocab, vocab_size, ends) if "infill" in sampling.order else None,
    )


def allowed_tokens(sampling: Sampling) -> Index | None:
    allowed = sampling.allowed_token_ids
    return None if allowed is None else np.unique(np.array(allowed, np.intp))


def _text_bias(sampling: Sampling, vocab: Vocab, vocab_size: int) -> dict[int, float]:
    """Without tokens that a row of logits has no place for: they cannot be drawn."""
    return _added(
        (token, bias)
        for text, bias in sampling.text_bias
        for token in vocab.tokenize(text, False, False)
        if token < vocab_size
    )


def biases(sampling: Sampling, rules: TokenRules) -> dict[int, float]:
    """Those by token id and those by text."""
    return _added([*rules.text_bias.items(), *sampling.logit_bias.items()])


def _added(biases: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Biases of one token add up, as in llama.cpp: a ban holds, whatever else is said of the token."""
    total: dict[int, float] = {}
    for token, bias in biases:
        total[token] = total.get(token, 0.0) + bias
    return total


def _bad_words(
    words: tuple[str, ...], vocab: Vocab, vocab_size: int
) -> tuple[tuple[int, ...], ...]:
    """Each word as it begins a text and, if that is another token, as it follows a space.

    Without words that cannot be drawn, because a row of logits has no place for one of their tokens.
    """
    if len(words) > MAX_BAD_WORDS:
        raise InvalidField(
            f"bad_words has {len(words)} entries: at most {MAX_BAD_WORDS} are taken", "bad_words"
        )
    found: dict[tuple[int, ...], None] = {}
    for word in words:
        if not word:
            raise InvalidField(
                "bad_words holds an empty text: each must have a letter", "bad_words"
            )
        bare = word.lstrip() or word
        plain = tuple(vocab.tokenize(bare, False, False))
        spaced = tuple(vocab.tokenize(" " + bare, False, False))
        found[plain] = None
        if len(spaced) == len(plain) and spaced[:1] != plain[:1]:
            found[spaced] = None
    return tuple(tokens for tokens in found if tokens and max(tokens) < vocab_size)


def _breakers(sampling: Sampling, vocab: Vocab) -> Breakers:
    if not sampling.dry_multiplier:
        return {}
    name, texts = "dry_sequence_breakers", sampling.dry_sequence_breakers
    if len(texts) > MAX_BREAKERS:
        raise InvalidField(
            f"{name} has {len(texts)} entries: at most {MAX_BREAKERS} are taken", name
        )
    if any(len(text.encode(errors="replace")) > MAX_BREAKER_BYTES for text in texts):
        raise InvalidField(f"{name} holds a text of more than {MAX_BREAKER_BYTES} bytes", name)
    return find_breakers(filter(None, texts), vocab)
