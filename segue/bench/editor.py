"""A typing session over HTTP, against llama.cpp's own server within one run.

    python -m segue.bench.editor [MODEL.gguf] [--session infill|plain|ranked] [--cache-reuse 256]

200 keystrokes into a file of this package, 1,000 tokens around the cursor, a request each; the client closes the
connection when the next key is pressed. Keys come in bursts of 10, one every 100 ms, so that most requests are dropped
unfinished; after the last key of a burst the client waits for the first token; that time to first
token is the figure. Bursts alternate between the servers, and none begins before both are idle.

`infill` gives both servers the same file and the same `/infill` body, as llama.vim sends it. The embedded model has no
tokens for that, so it is a copy of it in which three tokens it never uses are named as such: what it writes is
nonsense, what it costs is not. `plain` is completion of a prompt that grows, `ranked` is the embedded model as it is,
which llama.cpp refuses. The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from segue.bench.harness import wire
from segue.bench.harness.llama_server import llama_server
from segue.bench.harness.served import served
from segue.bench.keystrokes import keystrokes
from segue.bench.peers import model_path
from segue.cpus import usable_cpus
from segue.runners.llama.runner import LlamaVocab

IDLE_WITHIN_S = 60.0
NUM_PREDICT = 64  # far more than is waited for

Body = dict[str, Any]
Stroke = tuple[str, str]  # what stands before the cursor, and after it


def _editor(stroke: Stroke) -> Body:
    """As llama.vim asks, but streamed, so that a first token can be seen."""
    before, after = stroke
    at = before.rfind("\n") + 1
    return {
        "id_slot": 0,
        "input_prefix": before[:at],
        "prompt": before[at:],
        "input_suffix": after,
        "input_extra": [],
        "n_predict": NUM_PREDICT,
        "top_k": 40,
        "top_p": 0.9,
        "samplers": ["top_k", "top_p", "infill"],
        "cache_prompt": True,
        "ignore_eos": True,
        "stream": True,
        "timings_per_token": True,
        "seed": 1,
    }


def _plain(stroke: Stroke) -> Body:
    body = _editor(stroke)
    before, after = stroke
    for name in ("input_prefix", "input_suffix", "input_extra"):
        del body[name]
    return body | {"prompt": f"{after}\n\n{before}"}


def _ranked(stroke: Stroke) -> Body:
    return _editor(stroke) | {"n_predict": 16, "ignore_eos": False}


class Session(NamedTuple):
    path: str
    body: Callable[[Stroke], Body]
    has_fim: bool = False  # whether the model's copy with FIM tokens is served
    has_peer: bool = True


SESSIONS = {
    "infill": Session("/infill", _editor, has_fim=True),
    "plain": Session("/completion", _plain),
    "ranked": Session("/infill", _ranked, has_peer=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--session", choices=SESSIONS, default="infill")
    parser.add_argument("--keystrokes", type=int, default=200)
    parser.add_argument("--burst", type=int, default=10)
    parser.add_argument("--interval", type=float, default=0.1, help="seconds between keystrokes")
    parser.add_argument("--cache-reuse", type=int, default=0, help="llama.cpp's --cache-reuse")
    options = parser.parse_args()
    session, threads = SESSIONS[options.session], usable_cpus()
    with contextlib.ExitStack() as stack:
        path, flags = model_path(options.model), ["--threads", str(threads)]
        if session.has_fim:
            path = stack.enter_context(_with_fim_tokens(path))
            flags += ["--cache-dir", str(Path(path).parent)]  # what is made of it goes with it
        vocab = LlamaVocab(path)
        strokes = list(keystrokes(vocab, options.keystrokes, closes=False))
        ours = stack.enter_context(served(path, *flags))
        typists = {"segue": Typist(ours.host, ours.port, session, OWN_METRICS)}
        if session.has_peer:
            settings = {"endpoint_metrics": True, "n_cache_reuse": options.cache_reuse}
            url = stack.enter_context(llama_server(path, threads, settings))
            host, _, port = url.removeprefix("http://").partition(":")
            typists["llama.cpp"] = Typist(host, int(port), session, LLAMA_METRICS)
        figures = wire.run(replay(typists, strokes, options.burst, options.interval))
    _show(figures)
    print(json.dumps(figures))


# --- the session --------------------------------------------------------------------------------

OWN_METRICS = ("segue_running", "segue_waiting")
LLAMA_METRICS = ("llamacpp:requests_processing", "llamacpp:requests_deferred")


class Typist:
    """One client of one server, and its measurements."""

    def __init__(
        self, host: str, port: int, session: Session, busy_metrics: tuple[str, ...]
    ) -> None:
        self._address = host, port
        self._session = session
        self._busy_metrics = busy_metrics
        self.waits: list[float] = []  # from the last keystroke of a burst to its first token
        self.reads: list[int] = []  # prompt tokens computed for it
        self.frees: list[float] = []  # from the disconnect until the server was idle
        self.num_sent = 0

    async def type(self, strokes: list[Stroke], interval_s: float) -> None:
        """Send a burst. The last request is read; the others are aborted when the next key comes."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for number, stroke in enumerate(strokes):
            await asyncio.sleep(begun + number * interval_s - loop.time())
            sent = wire.request(self._session.body(stroke), self._session.path)
            pressed = time.perf_counter()
            connection = await wire.Wire.open(*self._address)
            first = asyncio.create_task(_first_event(connection, sent))
            self.num_sent += 1
            if number + 1 < len(strokes):
                rest = begun + (number + 1) * interval_s - loop.time()
                await asyncio.wait((first,), timeout=max(0.0, rest))
                first.cancel()
            else:
                self.reads.append((await first)["timings"]["prompt_n"])
                self.waits.append(time.perf_counter() - pressed)
            await asyncio.wait((first,))
            connection.close()
        self.frees.append(await self._until_idle())

    async def _until_idle(self) -> float:
        left = time.perf_counter()
        while time.perf_counter() - left < IDLE_WITHIN_S:
            metrics = await self.metrics()
            if not any(metrics[name] for name in self._busy_metrics):
                return time.perf_counter() - left
            await asyncio.sleep(0.01)
        raise SystemExit("a request that was dropped still holds its place")

    async def metrics(self) -> dict[str, float]:
        """Those of the only model, without its label."""
        connection = await wire.Wire.open(*self._address)
        answer = await connection.ask(wire.get("/metrics"))
        connection.close()
        rows = (row.rpartition(" ") for row in answer.body.decode().splitlines())
        return {name.partition("{")[0]: float(value) for name, _, value in rows if name[:1] != "#"}


async def _first_event(connection: wire.Wire, sent: bytes) -> Any:
    text = b""
    with contextlib.suppress(OSError, EOFError):
        async with contextlib.aclosing(connection.events(sent)) as events:
            async for _, piece in events:
                text += piece
                _, found, rest = text.partition(b"data: ")
                if found and b"\n\n" in rest:
                    return json.loads(rest.partition(b"\n\n")[0])
    raise SystemExit(f"a stream ended without an event: {text[:300]!r}")


async def replay(
    typists: dict[str, Typist], strokes: list[Stroke], burst: int, interval_s: float
) -> dict[str, dict[str, float]]:
    bursts = [strokes[at : at + burst] for at in range(0, len(strokes), burst)]
    prefilled: float = 0.0
    for number, keys in enumerate(bursts):
        for name, typist in typists.items():
            await typist.type(keys, interval_s)
            if name == "segue" and number == 0:
                prefilled = (await typist.metrics())["segue_prefilled_tokens_total"]
    figures = {name: _figures(typist) for name, typist in typists.items()}
    after = await typists["segue"].metrics()
    num_counted = len(strokes) - len(bursts[0])  # the first burst reads the file for the first time
    computed = after["segue_prefilled_tokens_total"] - prefilled
    figures["segue"]["prefilled_a_request"] = round(computed / num_counted, 1)
    for name in ("cancelled_total", "finished_total", "slots_used"):
        figures["segue"][name.removesuffix("_total")] = after[f"segue_{name}"]
    return figures


def _figures(typist: Typist) -> dict[str, float]:
    waits = typist.waits[1:]
    return {
        "requests": typist.num_sent,
        "first_token_ms": round(1000 * statistics.median(waits), 1),
        "first_token_worst_ms": round(1000 * max(waits), 1),
        "prefilled_by_the_last": round(statistics.mean(typist.reads[1:]), 1),
        "freed_within_ms": round(1000 * max(typist.frees), 1),
    }


def _show(figures: dict[str, dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for each in figures.values() for name in each))
    print(f"{'':24}" + "".join(f"{server:>12}" for server in figures))
    for name in names:
        cells = (str(each.get(name, "")) for each in figures.values())
        print(f"{name:24}" + "".join(f"{cell:>12}" for cell in cells))
    if "llama.cpp" in figures:
        ours, theirs = (each["first_token_ms"] for each in figures.values())
        print(f"first token after the last keystroke: {theirs / ours:.1f} times as fast")


# --- a model that names FIM tokens --------------------------------------------------------------

_MARKERS = {"pre": "<jupyter_start>", "suf": "<jupyter_text>", "mid": "<jupyter_code>"}
_ALIGNMENT = 32
_UINT32, _STRING = 4, 8  # types of values in a GGUF


@contextlib.contextmanager
def _with_fim_tokens(path: str) -> Iterator[str]:
    vocab = LlamaVocab(path)
    ids = {name: vocab.tokenize(text, False, True) for name, text in _MARKERS.items()}
    vocab.close()
    if any(len(tokens) != 1 for tokens in ids.values()):
        raise SystemExit(f"this model's vocabulary lacks {', '.join(_MARKERS.values())}")
    rows = {f"tokenizer.ggml.fim_{name}_token_id": tokens[0] for name, tokens in ids.items()}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "infill.gguf")
        copy.write_bytes(with_metadata(Path(path).read_bytes(), rows))
        yield str(copy)


def with_metadata(model: bytes, rows: dict[str, int]) -> bytes:
    """A GGUF with these numbers in front of its metadata; a text fills up to where tensors may begin."""
    encoded = [_key(key) + struct.pack("<II", _UINT32, value) for key, value in rows.items()]
    filler = _key("general.comment") + struct.pack("<I", _STRING)
    size = len(b"".join(encoded)) + len(filler) + 8
    text = b" " * (-size % _ALIGNMENT)
    encoded.append(filler + struct.pack("<Q", len(text)) + text)
    head, (count,) = model[:16], struct.unpack_from("<Q", model, 16)
    return head + struct.pack("<Q", count + len(encoded)) + b"".join(encoded) + model[24:]


def _key(name: str) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode()


if __name__ == "__main__":
    main()
