import msgspec

from segue.engine.process.suspects import Suspects
from segue.types import CompletionRequest
from tests.engine.harness import ask


def again(request: CompletionRequest) -> CompletionRequest:
    """The same asked once more: another id and another seed drawn for it."""
    sampling = msgspec.structs.replace(request.sampling, seed=99)
    return msgspec.structs.replace(request, request_id=request.request_id + "b", sampling=sampling)


def test_only_what_ran_at_both_crashes_is_named() -> None:
    suspects = Suspects()
    bad, other = ask("bad"), ask("other")
    assert suspects.crashed([bad, other]) == []
    assert suspects.crashed([again(bad), ask("new")]) == [bad.request_id + "b"]
    assert suspects.crashed([ask("other")]) == [], "in a row means in a row"
    assert suspects.crashed([]) == []
    assert suspects.crashed([ask("other")]) == []
