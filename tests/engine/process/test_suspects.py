import msgspec

from segue.engine.process.suspects import Suspects, digests
from segue.types import CompletionRequest
from tests.engine.harness import ask


def again(request: CompletionRequest) -> CompletionRequest:
    """The same asked once more: another id and another seed drawn for it."""
    sampling = msgspec.structs.replace(request.sampling, seed=99)
    return msgspec.structs.replace(request, request_id=request.request_id + "b", sampling=sampling)


def test_only_what_ran_at_both_crashes_is_named() -> None:
    suspects = Suspects()
    bad, other = ask("bad"), ask("other")
    assert suspects.crashed(0, digests([bad, other])) == []
    assert suspects.crashed(1, digests([again(bad), ask("new")])) == [bad.request_id + "b"]
    assert suspects.crashed(2, digests([ask("other")])) == [], "in a row means in a row"
    assert suspects.crashed(3, {}) == []
    assert suspects.crashed(4, digests([ask("other")])) == []


def test_processes_report_one_crash_together() -> None:
    """What was sent again came to another process."""
    suspects = Suspects()
    bad = ask("bad")
    assert suspects.crashed(0, digests([bad])) == []
    assert suspects.crashed(0, digests([again(bad)])) == [], (
        "the same crash, told by another process"
    )
    assert suspects.crashed(1, {}) == []
    assert suspects.crashed(1, digests([again(bad)])) == [bad.request_id + "b"]
    assert suspects.crashed(3, digests([bad])) == [], "one between them was not seen"
