"""Adapters in the engine: one batch for all, and no prefix of one is another's."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.errors import InvalidField
from segue.runners.fake import FakeRunner, default_capabilities
from segue.types import Adapter, CompletionRequest, Infill, Prompt, Sampling
from tests.engine.harness import Bench, ask

HEAD = "a header that is long enough for requests to share it, whatever they are computed with: "
MIXES = (
    (),
    (Adapter("one", 1.0),),
    (Adapter("one", 0.5),),
    (Adapter("two", 1.0),),
    (Adapter("one", 1.0), Adapter("two", 0.25)),
)


def bench(**limits: int) -> Bench:
    return Bench(FakeRunner(replace(default_capabilities(**limits), adapters=("one", "two"))))


def alone(request: CompletionRequest) -> object:
    (story,) = bench().run(replace_id(request))
    return story.essence


def replace_id(request: CompletionRequest) -> CompletionRequest:
    prompts = [part for prompt in request.prompts for part in prompt.parts]
    return ask(
        *(p for p in prompts if isinstance(p, str)),
        sampling=request.sampling,
        max_tokens=request.max_tokens,
        n=request.n,
        adapters=request.adapters,
        use_cache=request.use_cache,
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(MIXES),
            st.sampled_from(["", "x", "other words"]),
            st.integers(1, 3),
            st.booleans(),
            st.integers(0, 5),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_a_request_gets_what_it_gets_alone(
    plan: list[tuple[tuple[Adapter, ...], str, int, bool, int]],
) -> None:
    """Whatever the others' adapters, before it and beside it. The fake runner refuses a slot of another mix."""
    many = bench(num_slots=4, num_cells=2048)
    requests = []
    for mix, tail, n, use_cache, steps in plan:
        request = ask(
            HEAD + tail,
            max_tokens=6,
            n=n,
            adapters=mix,
            use_cache=use_cache,
            sampling=Sampling(seed=3),
        )
        many.submit(request)
        requests.append(request)
        for _ in range(steps):
            many.step()
    many.run()
    for request in requests:
        assert many.stories[request.request_id].essence == alone(request)


def test_a_prefix_is_shared_by_requests_of_the_same_adapters_and_scales_only() -> None:
    own = bench()
    for i, mix in enumerate(MIXES):
        (first,) = own.run(ask(HEAD, max_tokens=1, adapters=mix))
        assert first.prompted[0].num_cached == 0, i
        (second,) = own.run(ask(HEAD, max_tokens=1, adapters=mix))
        assert second.prompted[0].num_cached == len(HEAD) - 1


def test_several_mixes_are_one_step() -> None:
    own = bench()
    for mix in MIXES:
        own.submit(ask("abc", max_tokens=3, adapters=mix))
    batch = own.scheduler.next_batch()
    assert batch is not None
    assert len({span.adapters for span in batch.spans}) == len(MIXES)


def test_ranked_middles_keep_their_adapters() -> None:
    """Probes fork from candidates, which the fake runner lets happen within one mix only."""
    infill = Infill(suffix=Prompt((" and the end",)), mode="ranked")
    for use_cache in (True, False):
        for mix in MIXES[:3]:
            own = bench()
            (story,) = own.run(
                ask(HEAD, max_tokens=6, infill=infill, adapters=mix, use_cache=use_cache)
            )
            assert story.done is not None


def test_an_adapter_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidField, match="no adapter 'three'"):
        bench().submit(ask("a", adapters=(Adapter("three", 1.0),)))


@pytest.mark.parametrize("salt", ["\x000:1.0", "0:1.0", "0:1.0\0", "\0", ","])
@pytest.mark.parametrize("first", [0, 1])
def test_no_salt_stands_for_an_adapter(salt: str, first: int) -> None:
    """With one that did, what a client computed without the adapter was others' prefix with it."""
    both = [ask(HEAD, adapters=MIXES[1]), ask(HEAD, cache_salt=salt)]
    each = [bench().run(request)[0].essence for request in both]
    shared = bench()
    for which in (first, 1 - first):
        [story] = shared.run(both[which])
        assert story.essence == each[which]
        assert story.prompted[0].num_cached == 0
