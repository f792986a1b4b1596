import pytest
from msgspec.structs import replace

from segue.engine.request import answer_size
from segue.engine.request.prepare import prepare
from segue.engine.seam import Model
from segue.errors import InvalidField, PromptTooLong
from segue.runners.fake import BOS, FakeVocab, default_capabilities
from segue.types import CompletionRequest, Infill, Prompt, Sampling, Truncation
from tests.engine.harness import ask

SMALL = Model(FakeVocab(), default_capabilities(context_length=20))
LARGE = Model(FakeVocab(), default_capabilities())


def tokens_of(request: CompletionRequest) -> list[list[int]]:
    return [s.tokens for s in prepare(request, SMALL).sequences]


def test_text_ids_and_mixtures() -> None:
    mixed = Prompt(("a", (98, 256), "c<|endoftext|>"))
    request = CompletionRequest(request_id="r", model="m", prompts=(mixed,))
    assert tokens_of(request) == [[97, 98, 256, 99, 256]]
    literal = Prompt(("<|x|>",), parse_special=False)
    request = CompletionRequest(request_id="r", model="m", prompts=(literal,))
    assert tokens_of(request) == [list(b"<|x|>")]


@pytest.mark.parametrize("token", [-1, 264, 2**40])
def test_ids_outside_the_vocabulary_name_the_field(token: int) -> None:
    with pytest.raises(InvalidField, match="0 to 263") as raised:
        tokens_of(ask([97, token]))
    assert raised.value.param == "prompt"
    with pytest.raises(InvalidField) as raised:
        tokens_of(ask("a", sampling=Sampling(logit_bias={token: 1.0})))
    assert raised.value.param == "logit_bias"


def test_length() -> None:
    assert len(tokens_of(ask("x" * 19))[0]) == 19
    too_long = (
        "prompt 1 has 20 tokens, but the model's context holds 20, at least one of them for the"
    )
    with pytest.raises(PromptTooLong, match=too_long) as raised:
        tokens_of(ask("x", "x" * 20))
    assert raised.value.details == {"n_prompt_tokens": 20, "n_ctx": 20, "n_answer": 16, "prompt": 1}
    assert len(tokens_of(ask("x" * 20, max_tokens=0))[0]) == 20
    with pytest.raises(InvalidField, match="empty"):
        tokens_of(ask(""))


def test_what_each_choice_tells_of_a_prompt_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_size, "MAX_REPEATED_CHARS", 96)
    prepare(ask("abcd", n=3, tells_ids=True), SMALL)
    with pytest.raises(InvalidField, match="n would bring 128 characters"):
        prepare(ask("abcd", n=4, tells_ids=True), SMALL)
    gap = Infill(suffix=Prompt(("s",)))
    prepare(ask("a" * 48, n=2, infill=gap, max_tokens=2, echo=True), SMALL)
    with pytest.raises(InvalidField, match="n would bring 98 characters"):
        prepare(ask("a" * 49, n=2, infill=gap, max_tokens=2, echo=True), SMALL)


def test_candidates() -> None:
    assert len(tokens_of(ask("a", "b", n=2, best_of=3))) == 6
    assert len(tokens_of(ask("a", "b", n=2, max_tokens=0))) == 2


LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("how", "max_tokens", "kept"),
    [
        (Truncation(), 4, LETTERS[-16:]),
        (Truncation(), None, LETTERS[-10:]),
        (Truncation(max_tokens=19), None, LETTERS[-10:]),
        (Truncation(num_kept=2), None, "ab" + LETTERS[-8:]),
        (Truncation(), 99, LETTERS[-10:]),
        (Truncation(), 0, LETTERS[-20:]),
        (Truncation(num_kept=2), 4, "ab" + LETTERS[-14:]),
        (Truncation(num_kept=99), 4, LETTERS[:16]),
        (Truncation(side="end"), 4, LETTERS[:16]),
        (Truncation(max_tokens=3), 4, "xyz"),
        (Truncation(max_tokens=99), 4, LETTERS[-16:]),
    ],
)
def test_truncation(how: Truncation, max_tokens: int | None, kept: str) -> None:
    request = ask(LETTERS, "short", truncation=how, max_tokens=max_tokens)
    cut, whole = tokens_of(request)
    assert bytes(cut).decode() == kept
    if how.max_tokens != 3:
        assert bytes(whole) == b"short"


class BosVocab(FakeVocab):
    adds_bos = True

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        return [BOS] * add_special + super().tokenize(text, False, parse_special)


@pytest.mark.parametrize(
    ("how", "cut"),
    [
        (Truncation(max_tokens=3, keeps_bos=True), [[BOS, *b"yz"], [*b"xyz"], [*b"xyz"]]),
        (Truncation(max_tokens=1, keeps_bos=True), [[BOS], [*b"z"], [*b"z"]]),
        (Truncation(max_tokens=3), [[*b"xyz"]] * 3),
    ],
)
def test_a_bos_that_was_put_in_front_can_be_kept(how: Truncation, cut: list[list[int]]) -> None:
    alone = Prompt((LETTERS,), add_special=False)
    ids = Prompt(((BOS, *LETTERS.encode()),))
    request = replace(ask(LETTERS, truncation=how), prompts=(Prompt((LETTERS,)), alone, ids))
    sequences = prepare(request, SMALL._replace(vocab=BosVocab())).sequences
    assert [sequence.tokens for sequence in sequences] == cut


def test_an_empty_text_is_a_prompt_where_a_bos_stands_in_front() -> None:
    (sequence,) = prepare(ask(""), SMALL._replace(vocab=BosVocab())).sequences
    assert sequence.tokens == [BOS]


def test_a_prompt_that_fits_is_not_cut_for_an_answer_without_a_bound() -> None:
    (whole,) = tokens_of(ask(LETTERS[:19], truncation=Truncation(), max_tokens=None))
    assert bytes(whole).decode() == LETTERS[:19]
    (cut,) = tokens_of(ask(LETTERS[:20], truncation=Truncation(), max_tokens=None))
    assert bytes(cut).decode() == LETTERS[10:20]


class Unread(FakeVocab):
    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        raise AssertionError("a prompt that cannot fit must not be tokenized")


@pytest.mark.parametrize("text", ["<|endoftext|>a" * 100_000, "é" * 100_000])
def test_a_prompt_whose_bytes_cannot_fit_is_refused_before_it_is_tokenized(text: str) -> None:
    with pytest.raises(PromptTooLong) as raised:
        prepare(ask(text), LARGE._replace(vocab=Unread()))
    fewest = raised.value.details["n_prompt_tokens"]
    assert fewest > raised.value.details["n_ctx"]
    assert raised.value.message.startswith(f"the prompt has at least {fewest} tokens, but")
    assert raised.value.details["is_counted"] == 0


def test_what_is_to_be_truncated_has_a_bound_too() -> None:
    with pytest.raises(PromptTooLong):
        prepare(ask("x" * 1_000_000, truncation=Truncation()), LARGE._replace(vocab=Unread()))


def test_a_prompt_of_the_longest_tokens_fits() -> None:
    text = "<|fim_prefix|>" * 4095
    assert prepare(ask(text), LARGE).sequences[0].num_prompt == 4095


def test_a_list_of_allowed_tokens_is_bounded_and_shared_by_candidates() -> None:
    with pytest.raises(InvalidField, match="allowed_token_ids has 265 entries"):
        prepare(ask("x", sampling=Sampling(allowed_token_ids=(1,) * 265)), LARGE)
    job = prepare(ask("x", n=8, sampling=Sampling(allowed_token_ids=(3, 1, 3))), LARGE)
    assert len({id(sequence.sampler._rules.allowed) for sequence in job.sequences}) == 1
