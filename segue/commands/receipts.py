"""A receipt: a file with a request, its answer and what computed it, which `segue verify` checks."""

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from segue import machine
from segue.commands.folding import Folding
from segue.errors import SetupError

FORMAT = "segue-receipt-1"
# Added to the request, so that answers can be compared token by token.
REPORTS = {"stream": True, "return_token_ids": True, "stream_options": {"include_usage": True}}


class Difference(NamedTuple):
    """Where two answers differ first: token and choice, counted from 0, and the texts from there on."""

    choice: int
    token: int
    was: str
    now: str


def make(body: dict[str, Any], answer: Folding) -> dict[str, Any]:
    """Raises SetupError if the server drew without a seed: nothing could be compared."""
    if answer.seed is None:
        raise SetupError("this server named no seed of the answer: give --seed to save a receipt")
    request = {name: value for name, value in body.items() if name not in REPORTS}
    return {
        "format": FORMAT,
        "request": {**request, "seed": answer.seed},
        "answer": {
            "choices": [
                {
                    "text": said.text,
                    "tokens": said.tokens,
                    "finish_reason": said.finish_reason,
                }
                for _, said in sorted(answer.choices.items())
            ]
        },
        "system_fingerprint": answer.fingerprint,
    }


def check_place(file: Path) -> None:
    """Raises SetupError if no file can be written there: before a long answer is computed, not after."""
    if problem := machine.file_problem(file):
        raise SetupError(f"cannot write {file}: {problem}")


def write(file: Path, receipt: dict[str, Any]) -> None:
    """The whole file, or none. Raises SetupError."""
    text = json.dumps(receipt, ensure_ascii=False, indent=1)
    is_new = not file.exists()
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        if is_new:
            with contextlib.suppress(OSError):
                file.unlink()
        raise SetupError(f"cannot write {file}: {error.strerror}") from None


def read(file: Path) -> dict[str, Any]:
    """Read a receipt. Raises SetupError if the file is not one."""
    try:
        receipt = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise SetupError(f"{file} is not JSON: {error}") from None
    match receipt:
        case {
            "format": "segue-receipt-1",
            "request": {"prompt": _, "seed": int()},
            "answer": {"choices": [*choices]},
        } if all(type(each) is dict and type(each.get("text")) is str for each in choices):
            return dict(receipt)
    raise SetupError(f"{file} is no receipt of segue complete --save or of the page")


def first_difference(receipt: dict[str, Any], answer: Folding) -> Difference | None:
    """The first difference; None: every byte and token is the same."""
    kept = receipt["answer"]["choices"]
    for index in range(max(len(kept), len(answer.choices))):
        was: dict[str, Any] = kept[index] if index < len(kept) else {"text": "", "tokens": []}
        said = answer.choices.get(index)
        now_text, now_tokens = (said.text, said.tokens) if said else ("", [])
        was_tokens = was.get("tokens") or []
        if was["text"] == now_text and (not was_tokens or was_tokens == now_tokens):
            continue
        pairs = zip(was_tokens, now_tokens, strict=False)
        shorter = min(len(was_tokens), len(now_tokens))
        at = next((place for place, (a, b) in enumerate(pairs) if a != b), shorter)
        same = _common(was["text"], now_text)
        return Difference(index, at, was["text"][same : same + 40], now_text[same : same + 40])
    return None


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def why(was: str | None, now: str | None) -> str:
    """Differences of machine or version that may explain another answer."""
    if any("_varies_" in (each or "") for each in (was, now)):
        return f"It was computed by {was} and now by {now}: a runner that varies promises nothing across machines."
    if was == now:
        return (
            f"The fingerprint is the same ({now}), so it should not have: the model may be served without the promise "
            "of same bytes (segue doctor says), or this is a fault worth reporting."
        )
    return (
        f"It was computed by {was or 'something without a fingerprint'} and now by {now or 'something without one'}: "
        "another model file, other kernels or another version of the sampler draw other tokens."
    )
