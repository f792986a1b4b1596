"""Typing in an editor: how much is computed again per typed character, and how long a middle takes.

    python -m segue.bench.keystrokes MODEL.gguf [--runner llama] [--keystrokes 200] [--steps 4]

First by layout, without a model: the tokens of each prompt that no earlier prompt begins with, in a file of this
package, 1,000 tokens around the cursor; once typing only, once with an editor that closes brackets and quotes itself.
Then on the model: each request is dropped after `--steps` steps for the next one. The last line is JSON.
"""

import argparse
import inspect
import json
import statistics
import time
from collections.abc import Iterator

from segue.bench.harness.stepping import Stepper, loader_of
from segue.engine.infill.layouts import lay_out
from segue.engine.scheduling import prefix_cache
from segue.engine.scheduling.prefix_cache import PrefixCache
from segue.engine.seam import FimTokens, Vocab
from segue.types import CompletionRequest, Delta, Infill, Prompt, Sampling

NUM_BEFORE, NUM_AFTER = 700, 300  # tokens around the cursor
ROOM = 2048
CLOSERS = {"(": ")", "[": "]", "{": "}", '"': '"'}
ORDERS = ("psm", "auto", "spm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--runner", default="cpu", choices=["cpu", "llama"])
    parser.add_argument("--keystrokes", type=int, default=200)
    parser.add_argument("--steps", type=int, default=4, help="that pass before the next keystroke")
    options = parser.parse_args()
    stepper = Stepper(loader_of(options.runner, options.model))
    result: dict[str, float] = {}
    for order in ORDERS:
        for closes in (False, True):
            strokes = keystrokes(stepper.vocab, options.keystrokes, closes)
            mean = statistics.mean(read_again(stepper.vocab, list(strokes), order))
            name = f"{order}{'_closing_brackets' if closes else ''}"
            result[name] = round(mean, 1)
            print(f"{name:28} {mean:7.1f} tokens read again a keystroke")
    result |= session(stepper, options.keystrokes, options.steps)
    print(json.dumps(result))


def keystrokes(vocab: Vocab, count: int, closes: bool) -> Iterator[tuple[str, str]]:
    """The text before and after the cursor, for each typed character."""
    text = inspect.getsource(prefix_cache)
    at = text.index("    def insert(")
    before = _last_tokens(vocab, text[:at])
    typed, after = text[at : at + count], text[at + count :]
    after = _first_tokens(vocab, after)
    closers: list[str] = []
    for end, character in enumerate(typed, 1):
        if closers and character == closers[-1]:
            closers.pop()
        elif closes and character in CLOSERS:
            closers.append(CLOSERS[character])
        yield before + typed[:end], "".join(reversed(closers)) + after


def _last_tokens(vocab: Vocab, text: str) -> str:
    tokens = vocab.tokenize(text, False, False)[-NUM_BEFORE:]
    return b"".join(map(vocab.piece, tokens)).decode(errors="ignore")


def _first_tokens(vocab: Vocab, text: str) -> str:
    tokens = vocab.tokenize(text, False, False)[:NUM_AFTER]
    return b"".join(map(vocab.piece, tokens)).decode(errors="ignore")


def read_again(vocab: Vocab, strokes: list[tuple[str, str]], order: str) -> list[int]:
    """Tokens to compute per keystroke. Any tokens serve as markers: only their positions matter."""
    fim = FimTokens(prefix=1, suffix=2, middle=3)
    cache, counts = PrefixCache(), []
    for slot, (before, after) in enumerate(strokes):
        infill = Infill(suffix=Prompt((after,)), order=order)  # type: ignore[arg-type]
        tokens = lay_out([Prompt((before,))], infill, vocab, fim, ROOM)[0].tokens
        match = cache.match(tokens)
        counts.append(len(tokens) - (match.length if match else 0))
        cache.insert(slot, tokens)
    return counts[1:]


def session(stepper: Stepper, count: int, num_steps: int) -> dict[str, float]:
    """A session with the model's own method; each request is dropped for the next, the last one is timed."""
    strokes = list(keystrokes(stepper.vocab, count, closes=False))
    reads = []
    for stroke, (before, after) in enumerate(strokes):
        rows = stepper.num_prompt_rows
        request = _request(str(stroke), before, after)
        stepper.submit(request)
        for _ in range(num_steps):
            stepper.step()
        stepper.scheduler.cancel(request.request_id)
        stepper.scheduler.check()
        reads.append(stepper.num_prompt_rows - rows)
    times: list[float] = []
    for before, after in strokes[-10:]:
        begun = time.perf_counter()
        events = stepper.run(_request(f"whole {len(times)}", before + " ", after))
        times.append(time.perf_counter() - begun)
        if not any(isinstance(event, Delta) for event in events):
            raise SystemExit("a request ended without text")
    stats = stepper.scheduler.stats
    if stats.running or stats.waiting:
        raise SystemExit("a dropped request still holds its place")
    mean = statistics.mean(reads[1:])
    print(f"on the model: {mean:.1f} prompt tokens computed a keystroke, {stats.cancelled} dropped")
    print(f"a whole middle takes {statistics.median(times):.3f} s")
    return {
        "session_tokens_a_keystroke": round(mean, 1),
        "session_dropped": stats.cancelled,
        "middle_seconds": round(statistics.median(times), 3),
    }


def _request(name: str, before: str, after: str) -> CompletionRequest:
    return CompletionRequest(
        request_id=name,
        model="",
        prompts=(Prompt((before,)),),
        infill=Infill(suffix=Prompt((after,))),
        max_tokens=16,
        sampling=Sampling(temperature=0),
    )


if __name__ == "__main__":
    main()
