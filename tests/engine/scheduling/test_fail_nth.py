"""The N-th call of each kind fails, N = 1, 2, 3 … until a request goes through: who suffers, and is all else intact?"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from segue.engine.constraints import guide
from segue.engine.constraints.threads.mask_threads import MaskThreads
from segue.engine.request.prepare import prepare
from segue.engine.sampling.dry import Dry
from segue.engine.sampling.logit_bans import LogitBans
from segue.engine.seam import Model
from segue.runners.fake import FakeRunner, FakeVocab, default_capabilities
from segue.types import Sampling
from tests.engine.constraints.guided import regex
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.ahead_runner import plain, runner, same

ASKED: dict[str, Any] = {"max_tokens": 4, "n": 2, "logprobs": 2, "echo": True}


class Fault(Exception):
    pass


LATE = [
    (Dry, "added", Sampling(seed=1, dry_multiplier=2.0, dry_allowed_length=0, ignore_eos=True)),
    (LogitBans, "completing", Sampling(seed=1, bad_words=("an", "so"), ignore_eos=True)),
]


def failing(call: Callable[..., Any], nth: int, is_lasting: bool = False) -> Callable[..., Any]:
    count = itertools.count(1)

    def called(*args: Any, **kwargs: Any) -> Any:
        number = next(count)
        if number == nth or (is_lasting and number > nth):
            raise Fault
        return call(*args, **kwargs)

    return called


@pytest.mark.parametrize("method", ["piece", "is_control"])
def test_a_call_of_the_vocabulary(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails its own request; the one beside it says what it says alone, and nothing is leaked."""
    alone = Bench().run(ask("beside", **ASKED))[0].essence
    for nth in itertools.count(1):
        bench = Bench()
        beside, unlucky = ask("beside", **ASKED), ask("unlucky", **ASKED)
        bench.submit(beside)
        bench.step()
        bench.submit(unlucky)
        vocab = FakeVocab()
        usual = getattr(vocab, method)
        hurt = failing(lambda token, call=usual: call(token), nth)
        monkeypatch.setattr(bench.vocab, method, hurt)
        while bench.step():
            pass
        stories = [bench.stories[r.request_id] for r in (beside, unlucky)]
        assert bench.scheduler.is_idle
        failed = [story for story in stories if story.failed is not None]
        if not failed:
            assert nth > 1
            break
        assert len(failed) == 1
        assert failed[0].failed is not None
        assert failed[0].failed.code == "engine_fault"
        if failed[0] is stories[1]:
            assert stories[0].essence == alone
        monkeypatch.setattr(bench.vocab, method, usual)
        assert bench.run(ask("beside", **ASKED))[0].essence == alone


def test_tokenizing() -> None:
    vocab = FakeVocab()
    vocab.tokenize = failing(vocab.tokenize, 1)  # type: ignore[method-assign]
    with pytest.raises(Fault):
        prepare(ask("x"), Model(vocab, Bench().capabilities))


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("kind", LATE)
def test_what_is_told_late(
    kind: tuple[type, str, Sampling],
    is_held: bool,
    goes_on: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever fails once is done again by the sampler; what fails from then on fails its own request."""
    owner, method, sampling = kind
    usual = getattr(owner, method)
    constraint = regex("[a-z ]{50}") if is_held else None
    unlucky = plain(0, sampling=sampling, constraint=constraint, max_tokens=9)
    asked = [unlucky, plain(1), plain(2)]
    alone = [Bench(runner(rows_ahead=0)).run(request)[0] for request in asked]
    for nth in (1, 2, 5, 9, 10):
        for is_lasting in (False, True):
            bench = Bench(runner(draft_rows=1))
            bench.may_go_on = lambda: goes_on
            hurt = failing(usual, nth, is_lasting)
            monkeypatch.setattr(owner, method, lambda self, call=hurt: call(self))
            stories = bench.run(*asked)
            monkeypatch.setattr(owner, method, usual)
            failed = [story for story in stories if story.failed is not None]
            assert failed == ([stories[0]] if is_lasting and nth <= 9 else [])
            for story, single in zip(stories, alone, strict=True):
                assert story in failed or same(story) == same(single)


@pytest.mark.parametrize("is_lasting", [True, False])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_mask_that_no_thread_takes_on(
    goes_on: bool, is_lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that cannot be started, for one. Masks are asked for where steps are planned, and told to open ones."""
    unlucky = plain(0, constraint=regex("([ab] and so on, [cd]: ){1,9}"), max_tokens=40)
    asked = [unlucky, plain(1), plain(2)]
    alone = [Bench(runner(rows_ahead=0)).run(request)[0] for request in asked]
    for nth in itertools.count(1):
        bench = Bench(runner(draft_rows=1))
        bench.may_go_on = lambda: goes_on
        threads = MaskThreads()
        monkeypatch.setattr(threads, "submit", failing(threads.submit, nth, is_lasting))
        monkeypatch.setattr(guide, "_THREADS", threads)
        stories = bench.run(*asked)
        failed = [story for story in stories if story.failed is not None]
        assert failed in ([], stories[:1])
        for story, single in zip(stories, alone, strict=True):
            assert story in failed or same(story) == same(single)
        if not failed:
            assert nth > 1
            break


@pytest.mark.parametrize("nth", [1, 2])
def test_a_mask_that_cannot_be_asked_for(nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a step is told of masks that come after forced tokens: its request finds them later, and says the same."""
    constraint = regex("([ab] and so on, [cd]: ){1,9}")
    asked = [plain(0, constraint=constraint, max_tokens=40), plain(1)]
    alone = [Bench(runner(rows_ahead=0)).run(request)[0] for request in asked]
    hurt = failing(guide.Guide._after, nth, is_lasting=True)
    monkeypatch.setattr(guide.Guide, "_after", lambda self, num_forced: hurt(self, num_forced))
    stories = Bench(runner(draft_rows=1)).run(*asked)
    assert [same(story) for story in stories] == [same(single) for single in alone]


@pytest.mark.parametrize("method", ["decode", "fork", "trim", "free", "begin", "end"])
def test_a_call_of_the_runner_ends_the_step(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can say what is left in the KV, so it is not hidden: the worker ends and starts anew."""
    for nth in itertools.count(1):
        runner = FakeRunner(default_capabilities(rows_ahead=0 if method == "decode" else 8))
        monkeypatch.setattr(runner, method, failing(getattr(runner, method), nth))
        bench = Bench(runner)
        try:
            longer = ask("one and more", **ASKED | {"max_tokens": 6, "use_cache": False})
            bench.run(ask("one", **ASKED), longer)
            assert nth > 1, "else it was never called"
        except Fault:
            continue
        break
    assert nth < 200
