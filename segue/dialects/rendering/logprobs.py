"""Log-probabilities in the legacy completions layout, and prompt scores as vLLM writes them."""

from collections.abc import Callable, Iterable
from typing import Any

from segue.detokenizer import Detokenizer
from segue.types import LOWEST_LOGPROB, Alternative, Prompted, TokenScore


def token_text(piece: bytes) -> str:
    """A token as a string. Part of a character is written as its bytes, so that no two tokens look alike."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(
            chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in piece
        )


Name = Callable[[int, bytes], str]
"""How a token is called, by its id and bytes."""


def by_text(token: int, piece: bytes) -> str:
    return token_text(piece)


def by_id(token: int, piece: bytes) -> str:
    return f"token_id:{token}"


def finite(logprob: float) -> float:
    return logprob if logprob > LOWEST_LOGPROB else LOWEST_LOGPROB


class LegacyLogprobs:
    """Writes runs of scored tokens; `push` says where in the text each token began.

    Offsets count characters from the start of the prompt. A token that begins inside a character
    has the offset of that character; one that the text does not show has no width. It does not matter
    how the tokens are split over calls.
    """

    def __init__(self, num_top: int, offset: int, name: Name = by_text):
        self._num_top = num_top
        self._name = name
        self._offset = offset
        self._detokenizer = Detokenizer()

    def push(self, scores: Iterable[TokenScore]) -> dict[str, list[Any]]:
        tokens: list[str] = []
        logprobs: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        offsets: list[int] = []
        for score in scores:
            called = self._name(score.token, score.piece)
            tokens.append(called)
            text = self._detokenizer.push(score.piece if score.is_shown else b"")
            offsets.append(max(self._offset + self._detokenizer.num_before, 0))
            self._offset += len(text)
            if score.logprob is None:
                logprobs.append(None)
                tops.append(None)
                continue
            logprobs.append(finite(score.logprob))
            tops.append(self._top(score.top[: self._num_top], called, score.logprob))
        return {
            "text_offset": offsets,
            "token_logprobs": logprobs,
            "tokens": tokens,
            "top_logprobs": tops,
        }

    def _top(
        self, alternatives: tuple[Alternative, ...], called: str, logprob: float
    ) -> dict[str, float]:
        # Likeliest first, so setdefault keeps the best of two ids that are called alike.
        top: dict[str, float] = {}
        for other in alternatives:
            top.setdefault(self._name(other.token, other.piece), finite(other.logprob))
        top[called] = max(top.get(called, LOWEST_LOGPROB), finite(logprob))
        return top


def echoed(prompt: Prompted, num_top: int, name: Name = by_text) -> dict[str, list[Any]]:
    """A prompt's own tokens. What the tokenizer put in front of the text (a BOS, a space) has no width."""
    scores, text = tuple(prompt.scores or ()), prompt.text or ""
    pieces = [score.piece for score in scores]
    whole = b"".join(pieces).decode(errors="replace")
    told = LegacyLogprobs(num_top, len(text) - len(whole), name).push(scores)
    if not whole.endswith(text):
        told["text_offset"] = _places(text, pieces)
    return told


_REACH = 64  # bytes of a text that its tokens may leave out in one place


def _places(text: str, pieces: Iterable[bytes]) -> list[int]:
    """Where in a text each of its tokens begins, in characters.

    Tokenizers also put spaces behind control tokens, leave blanks out beside them, or spell a letter otherwise.
    """
    written = text.encode(errors="replace")
    chars = [at for at, char in enumerate(text) for _ in char.encode(errors="replace")]
    chars.append(len(text))
    places: list[int] = []
    end, num_missed = 0, 0
    for piece in pieces:
        start, width = _place(written, piece, end, _REACH + num_missed)
        num_missed = 0 if width else num_missed + len(piece)
        places.append(chars[start])
        end = start + width
    return places


def _place(written: bytes, piece: bytes, start: int, reach: int) -> tuple[int, int]:
    """Where a token stands, from `start` on, and how many of the bytes are its own: none if it is not found."""
    parts = [part for part in (piece, piece.removeprefix(b" ")) if part]
    for part in parts:
        if written.startswith(part, start):
            return start, len(part)
    for part in parts if piece.strip() else ():
        found = written.find(part, start, start + reach + len(part))
        if found >= 0:
            return found, len(part)
    return start, 0


def prompt_scores(prompt: Prompted, num_top: int) -> list[dict[str, Any] | None]:
    """One entry per prompt token: log-probability, rank and text, by token id."""
    return [
        None if score.logprob is None else _ranked(score, score.logprob, num_top)
        for score in prompt.scores or ()
    ]


def _ranked(score: TokenScore, logprob: float, num_top: int) -> dict[str, Any]:
    # The prompt's own token first: clients take the first one for it, as vLLM writes it there.
    entry = {str(score.token): _scored(logprob, score.rank, score.piece)}
    for rank, other in enumerate(score.top[:num_top], start=1):
        entry.setdefault(str(other.token), _scored(other.logprob, rank, other.piece))
    return entry


def _scored(logprob: float, rank: int, piece: bytes) -> dict[str, Any]:
    return {"logprob": finite(logprob), "rank": rank, "decoded_token": token_text(piece)}
