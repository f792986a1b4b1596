"""Members of answers stand in the order in which llama.cpp's server writes them: people compare them by eye."""

from typing import Any

import msgspec

from segue.dialects.base import Operation, Stamp
from segue.dialects.llamacpp import COMPLETION, LLAMACPP
from segue.dialects.llamacpp.settings import ORDER, generation_settings
from segue.types import Delta, Done, Event, Finished, Progress, Prompted, TokenScore, Usage

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=1, fingerprint="0123abcd")


def test_settings_come_in_the_servers_order() -> None:
    told = list(generation_settings(COMPLETION.parse({"prompt": "p"}, STAMP)))
    some = [
        "seed",
        "top_k",
        "typical_p",
        "mirostat",
        "stop",
        "stream",
        "grammar",
        "samplers",
        "lora",
    ]
    assert [name for name in told if name in some] == some
    assert set(told) == set(ORDER)
    biased = COMPLETION.parse({"prompt": "p", "logit_bias": [[3, 1.5]]}, STAMP)
    told = generation_settings(biased)["logit_bias"]
    assert [list(entry) for entry in told] == [["bias", "token"]]


READ: tuple[Event, ...] = (Progress(0, 2, 2, 0, 0.1), Prompted(0, (5, 6), 1))
WRITTEN: tuple[Event, ...] = (
    Delta(0, "a", (7,), (TokenScore(7, b"a", -0.5, 1, ()),)),
    Finished(0, "stop", "eos", 1),
    Done(Usage(2, 1, 1), 7),
)


def chunks_of(operation: Operation, tells_timings: bool = True) -> list[Any]:
    asked = {"prompt": "p", "n_probs": 1, "timings_per_token": tells_timings}
    asked["return_progress"] = True
    renderer = operation.renderer(operation.parse({**asked, "stream": True}, STAMP))
    told = [chunk for event in (*READ, *WRITTEN) for chunk in renderer.push(event)]
    return [msgspec.json.decode(msgspec.json.encode(chunk)) for chunk in told]


def test_chunks_have_their_members_in_the_servers_order() -> None:
    progress, piece, _ = map(list, chunks_of(COMPLETION))
    assert progress[-2:] == ["timings", "prompt_progress"]
    assert piece[-2:] == ["timings", "completion_probabilities"]
    progress, piece, last = chunks_of(LLAMACPP.operations[0])
    assert list(progress)[-3:] == ["id", "timings", "prompt_progress"]
    assert list(last)[-3:] == ["usage", "id", "timings"]
    quiet, *_ = chunks_of(LLAMACPP.operations[0], tells_timings=False)
    assert list(quiet)[-2:] == ["id", "prompt_progress"]
    assert list(last["usage"])[:3] == ["completion_tokens", "prompt_tokens", "total_tokens"]
