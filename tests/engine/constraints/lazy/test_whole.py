"""Lazy grammars through the real compiler, held to a matcher that knows nothing of ours, and to llama.cpp's sampler."""

import random
from collections.abc import Iterator

import pytest

from segue.engine.constraints.compiler import Compiler
from segue.errors import InvalidField
from segue.runners.llama.vocab import LlamaVocab
from tests.engine.constraints.guided import allowed
from tests.engine.constraints.lazy.oracle import Read, fitting
from tests.engine.constraints.lazy.random_triggers import RandomLazy, random_lazy
from tests.engine.constraints.tagged import END, compiler, vocabulary
from tests.support.llama_grammars import LlamaLazyGrammar


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaVocab]:
    with vocabulary(tmp_path_factory.mktemp("vocab")) as found:
        yield found


@pytest.fixture(scope="module")
def made(vocab: LlamaVocab) -> Compiler:
    return compiler(vocab)


class Walk:
    """Token by token through a lazy grammar: ours, the matcher's, llama.cpp's."""

    def __init__(self, own: RandomLazy, made: Compiler, vocab: LlamaVocab) -> None:
        """Raises InvalidField."""
        self._own = own
        self._vocab = vocab
        self._grammar = made.compile(own.constraint)
        pieces = {token: vocab.piece(token).decode(errors="replace") for token in range(vocab.size)}
        # llama.cpp does not let halves of characters come, nor NUL.
        told = {t: text for t, text in pieces.items() if "\ufffd" not in text and text > "\1"}
        self.texts = {token: text for token, text in told.items() if token != END}
        self._controls = frozenset(filter(vocab.is_control, self.texts))
        self.num_steps = self.num_triggered = 0

    def go(self, rng: random.Random, length: int = 9) -> None:
        own = self._own
        with LlamaLazyGrammar(self._vocab, str(own.grammar), own.patterns, own.tokens) as theirs:
            matcher, oracle = self._grammar.matcher.deep_copy(), own.matcher(self._controls)
            read = Read()
            for _ in range(length):
                fits = fitting(oracle, read, self.texts)
                assert allowed(matcher, self.texts) == fits.keys(), str(own)
                assert matcher.is_accepting() == (read.stacks is None or () in read.stacks)
                self._compare(theirs, read, fits)
                token = self._chosen(rng, read, fits)
                if token is None:
                    return
                self.num_steps += 1
                self.num_triggered += read.stacks is None and fits[token].stacks is not None
                read = fits[token]
                theirs.accept([token])
                assert matcher.consume_tokens([token])

    def _compare(self, theirs: LlamaLazyGrammar, read: Read, fits: dict[int, Read]) -> None:
        """llama.cpp lets everything come before the trigger, and fails if it does not fit then."""
        allowed = theirs.allowed()
        if read.stacks is None:
            assert len(allowed) == self._vocab.size
            return
        mistaken = {
            token
            for token, text in self.texts.items()
            if self._own.grammar.is_mistaken(read.stacks, token, text)
        }
        text = self.texts.keys() - self._controls
        assert allowed & text == (fits.keys() | mistaken) & text, str(self._own)

    def _chosen(self, rng: random.Random, read: Read, fits: dict[int, Read]) -> int | None:
        """One that does the same in llama.cpp, which looks for triggers after each token; now and then it is one."""
        oracle = self._own.matcher(self._controls)
        alike = fitting(oracle, read, {t: self.texts[t] for t in fits}, by_token=True)
        same = [token for token, after in alike.items() if after == fits[token]]
        fired = [token for token in same if fits[token].stacks is not None]
        if read.stacks is None and fired and rng.random() < 0.3:
            same = fired
        told = [token for token in same if set(self.texts[token]) <= set("abcx \n<") or token > 255]
        return rng.choice(told or same) if same else None


@pytest.mark.parametrize("seed", range(8))
def test_random_lazy_grammars(made: Compiler, vocab: LlamaVocab, seed: int) -> None:
    rng = random.Random(seed)
    num_compiled = num_steps = num_triggered = 0
    for _ in range(20):
        own = random_lazy(rng, vocab)
        try:
            walk = Walk(own, made, vocab)
        except InvalidField:
            continue
        num_compiled += 1
        for _ in range(2):
            walk.go(rng)
        num_steps += walk.num_steps
        num_triggered += walk.num_triggered
    assert num_compiled >= 10
    assert num_steps > 150
    assert num_triggered > 8
