"""Prompts that end inside a token, on a vocabulary of words."""

import pytest

from segue.engine.request.healing import heal
from segue.runners.fake import EOS, FakeVocab
from segue.types import Constraint, Infill, Prompt, Sampling
from tests.engine.harness import Bench, ask
from tests.engine.request.test_ranked_job import CorpusRunner, PlainVocab, fill


class WordVocab(PlainVocab):
    """Some bytes no text uses stand for words."""

    words = {1: b" blue", 2: b" b", 3: b" grey", 4: b" bluebird", 5: b" "}  # noqa: RUF012

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        data, tokens = text.encode(), []
        while data:
            found = [(len(w), t) for t, w in self.words.items() if data.startswith(w)]
            size, token = max(found, default=(1, data[0]))
            tokens.append(token)
            data = data[size:]
        return tokens

    def piece(self, token: int) -> bytes:
        return self.words.get(token) or super().piece(token)


def openings(prompt: str, **fields: object) -> set[bytes] | None:
    vocab = WordVocab()
    request = ask(prompt, **fields)  # type: ignore[arg-type]
    healed = heal(request, request.prompts[0], vocab.tokenize(prompt, False, False), vocab)
    return None if healed is None else {vocab.piece(int(token)) for token in healed.openings}


def test_what_may_follow_holds_all_that_was_taken_back() -> None:
    assert openings("sky b") == {b" b", b" blue", b" bluebird"}
    assert openings("y blue") == openings("sky blue")
    assert openings("sky ") == {b" ", b" b", b" blue", b" bluebird", b" grey"}
    assert openings("sky blue") == {b" blue", b" bluebird"}


@pytest.mark.parametrize(
    "fields",
    [
        {"constraint": Constraint(kind="regex", value="a")},
        {"prompt_logprobs": 1},
        {"sampling": Sampling(allowed_token_ids=(97,))},
        {"sampling": Sampling(logit_bias={97: 1.0})},
        {"sampling": Sampling(text_bias=((" ", -100.0),))},
        {"sampling": Sampling(bad_words=(" ",))},
    ],
)
def test_where_something_else_rules_nothing_is_taken_back(fields: dict[str, object]) -> None:
    assert openings("sky ", **fields) is None


def test_token_ids_control_tokens_and_single_tokens_are_taken_as_they_are() -> None:
    assert openings("x") is None
    request = ask([97, 98], infill=Infill(suffix=Prompt(("c",))))
    assert heal(request, request.prompts[0], [97, 98], FakeVocab()) is None
    request = ask("ab<|endoftext|>")
    assert heal(request, request.prompts[0], [97, 98, EOS], FakeVocab()) is None


class WordRunner(CorpusRunner):
    """Its corpus is written in the vocabulary's tokens."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        for text in texts:
            data = bytes(WordVocab().tokenize(text, False, False))
            for at in range(6, len(data) + 1):
                after = data[at] if at < len(data) else 256
                self._followers[data[at - 6 : at]][after] += 1


def test_a_prompt_that_ends_with_a_space_is_filled_as_if_it_did_not() -> None:
    runner = WordRunner("the sky is blue and the grass", "the sky is grey today")
    bench = Bench(runner, WordVocab())
    [story] = bench.run(
        fill("the sky is ", " and the grass", max_tokens=6, logprobs=0, stop=(" ",))
    )
    assert story.texts[0] == "blue"
    assert [score.piece for score in story.scores[0]] == [b"blue"]
    assert story.finished[0].num_tokens == 1
    assert story.prompted[0].text == "the sky is "
    prompt = WordVocab().tokenize("the sky is ", False, False)
    assert list(story.prompted[0].tokens) == prompt
    assert story.done is not None
    assert story.done.usage.prompt_tokens == len(prompt)


def test_a_prompt_that_ends_inside_a_word_is_completed() -> None:
    bench = Bench(WordRunner("the sky is blue and the grass"), WordVocab())
    [story] = bench.run(fill("the sky is b", " and the grass", max_tokens=6))
    assert story.texts[0] == "lue"
