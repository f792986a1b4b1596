"""Requests, up to the largest body, that once blocked the server, its streams or its worker. As bytes, by name.

Each is refused or served; the benchmark measures the cost for other requests.
"""

import json
from typing import Any

from segue.bench.harness.wire import request
from segue.bounds import (
    MAX_DETOKENIZE_TOKENS,
    MAX_JSON_CONTAINERS,
    MAX_JSON_VALUES,
    MAX_TOKENIZE_CHARS,
    MAX_TRANSLATED_BYTES,
)

_LARGEST = 16 << 20  # --max-body-bytes, at its default


def _repeated(before: bytes, what: bytes, after: bytes, size: int = _LARGEST) -> bytes:
    """`what`, repeated as often as fits into a body of that size."""
    return before + what * ((size - len(before) - len(after)) // len(what)) + after


def hostile_requests() -> dict[str, bytes]:
    """Every request as it is sent, head and body."""
    return {
        **{f"body: {name}": request(body) for name, body in _bodies().items()},
        **{f"prompt: {name}": request(_filled(body)) for name, body in _prompts().items()},
        **{f"answer: {name}": request(_filled(body)) for name, body in _answers().items()},
        **{f"tokens: {name}": request(body, path) for name, (path, body) in _companions().items()},
        **{f"page: {name}": request(body, "/play/translate") for name, body in _wishes().items()},
    }


def _filled(body: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": "x", "max_tokens": 4, **body}


def _bodies() -> dict[str, bytes]:
    """Bodies that are costly to decode."""
    return {
        "empty lists": _repeated(b'{"prompt":"a","x":[', b"[],", b"[]]}"),
        "empty objects": _repeated(b'{"prompt":"a","x":[', b"{},", b"{}]}"),
        "lists of one": _repeated(b'{"prompt":[', b"[1],", b"[1]]}"),
        "numbers": _repeated(b'{"prompt":[', b"1,", b"1]}"),
        "texts": _repeated(b'{"prompt":[', b'"a",', b'"a"]}'),
        "as many numbers as may be": b'{"prompt":[' + b"1," * (MAX_JSON_VALUES - 9) + b"1]}",
        "as many lists as may be": b'{"prompt":[' + b"[1]," * (MAX_JSON_CONTAINERS - 9) + b"[1]]}",
        "as many keys as may be": b'{"prompt":"a",'
        + b",".join(b'"k%d":1' % i for i in range(MAX_JSON_CONTAINERS - 9))
        + b"}",
        "keys": _repeated(b'{"prompt":"a","x":{', b'"k":1,', b'"k":1}}'),
        "brackets": b"[" * _LARGEST,
        "commas in a text": _repeated(b'{"prompt":"', b",", b'"}'),
        "escapes in a text": _repeated(b'{"prompt":"', b'\\"[,', b'"}'),
    }


def _prompts() -> dict[str, dict[str, Any]]:
    """Requests that are costly to prepare."""
    return {
        "special tokens": {"prompt": "<|endoftext|>a" * 214_285},
        "a long text": {"prompt": "word " * 3_200_000},
        "a long word": {"prompt": "a" * 15_000_000},
        "many prompts": {"prompt": ["a" * 15_000] * 1000},
        "allowed ids": {"n": 128, "allowed_token_ids": list(range(200)) * 5000},
        "stop tokens": {"stop_token_ids": list(range(200)) * 5000},
        "biased texts": {"logit_bias": {f"t{i}": 1 for i in range(200_000)}},
        "bad words": {"bad_words": [f"w{i}" for i in range(200_000)]},
        "stops": {"stop": [f"s{i}" for i in range(200_000)]},
        "breakers": {
            "dry_multiplier": 1,
            "dry_sequence_breakers": ["e" * 63 + chr(ord("0") + i) for i in range(64)],
        },
    }


def _answers() -> dict[str, dict[str, Any]]:
    """Requests with large answers."""
    scored = {"max_tokens": 0, "echo": True, "logprobs": 100}
    nearly = [f"{'a' * (250 + i)}b{'a' * 200}" for i in range(63)]
    return {
        "scores of prompts": {"prompt": ["a" * 4000] * 16, **scored},
        "scores of choices": {"prompt": "a" * 4000, "n": 16, "echo": True, "logprobs": 100},
        "as many scores as may be": {"prompt": "a" * 2000, "n": 5, **scored},
        "the same, streamed": {"prompt": "a" * 2000, "n": 5, **scored, "stream": True},
        "stops that nearly come": {
            "stop": ["a" * 1024, *nearly],
            "guided_regex": "a{1023}",
            "max_tokens": 1023,
        },
        "echoes": {"prompt": "a" * 3000, "n": 128, "echo": True, "max_tokens": 1},
    }


def _companions() -> dict[str, tuple[str, bytes]]:
    text = json.dumps("a" * 15_000_000).encode()
    most = json.dumps("a" * MAX_TOKENIZE_CHARS).encode()
    ids = b"[" + b"97," * (MAX_DETOKENIZE_TOKENS - 1) + b"97]"
    return {
        "15 MB": ("/tokenize", b'{"prompt":%b}' % text),
        "15 MB with pieces": ("/llamacpp/tokenize", b'{"content":%b,"with_pieces":true}' % text),
        "as much as may be": ("/tokenize", b'{"prompt":%b,"return_token_strs":true}' % most),
        "the same with pieces": ("/llamacpp/tokenize", b'{"content":%b,"with_pieces":true}' % most),
        "back to text": ("/detokenize", b'{"tokens":%b}' % ids),
    }


def _wishes() -> dict[str, bytes]:
    """Requests that the page at / shows in another dialect, and as code."""
    before, after = b'{"dialect":"vllm","request":{"prompt":[', b"1]}}"
    biases = b",".join(b'"%d":1' % i for i in range(MAX_TRANSLATED_BYTES // 12))
    return {
        "empty lists": _repeated(before, b"[],", after),
        "numbers": _repeated(before, b"1,", after),
        "as many numbers as may be": _repeated(before, b"1,", after, MAX_TRANSLATED_BYTES),
        "biases": b'{"dialect":"vllm","request":{"prompt":"a","logit_bias":{%b}}}' % biases,
    }
