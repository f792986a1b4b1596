"""llamafile's server: one prompt, one choice, errors as text. "0.9.3" in a source is llamafiler 0.9.3 itself, asked
the same."""

from typing import Any

from tests.contract import ANY, DONE, MODEL, NUMBER, Case, Like

PATH = "/llamafile/v1/completions"

HEAD: dict[str, Any] = {
    "id": Like(r"cmpl-[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": "LLaMA_CPP",
    "system_fingerprint": Like(r"fp_.+"),
}
ASK = {"model": "LLaMA_CPP", "prompt": "x"}


def choice(text: str, reason: str | None = "length") -> dict[str, Any]:
    return {"index": 0, "logprobs": None, "finish_reason": reason, "text": text}


def usage(prompt: int, completion: int) -> dict[str, int]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def whole(text: str, completion: int, reason: str = "length") -> dict[str, Any]:
    return {**HEAD, "choices": [choice(text, reason)], "usage": usage(1, completion)}


CASES = [
    Case(
        "fold",
        PATH,
        {**ASK, "max_tokens": 6},
        answer=whole(" brown", 6),
        source="B.4; the model's name is copied",
    ),
    Case(
        "fold",
        PATH,
        {**ASK, "max_tokens": 6, "max_completion_tokens": 2},
        answer=whole(" b", 2),
        source="A.1 max_completion_tokens overrides",
    ),
    Case(
        "stream",
        PATH,
        {**ASK, "max_tokens": 2, "stream": True},
        chunks=[
            {**HEAD, "choices": [choice(" ", None)]},
            {**HEAD, "choices": [choice("b", None)]},
            {**HEAD, "choices": [choice("")]},
            DONE,
        ],
        source="B.4 stream, without the chat's first chunk",
    ),
    Case(
        "stop",
        PATH,
        {**ASK, "stop": "fox"},
        answer=whole(" brown ", 10, "stop"),
        source="manual: stop",
    ),
    Case(
        "stop",
        PATH,
        {**ASK, "stop": list("abcde")},
        status=400,
        answer="stop must be a string or a list of at most 4 strings, not a list of 5\r\n",
        source="manual: up to 4 stop sequences",
    ),
    Case(
        "stop",
        PATH,
        {**ASK, "stop": "x" * 51, "max_tokens": 1},
        answer=whole(" ", 1),
        source="0.9.3: a single text may be of any length",
    ),
    Case(
        "stop",
        PATH,
        {**ASK, "stop": ["é" * 25], "max_tokens": 1},
        answer=whole(" ", 1),
        source="0.9.3: 50 bytes in a list",
    ),
    Case(
        "stop",
        PATH,
        {**ASK, "stop": ["fox", "é" * 26]},
        status=400,
        answer=Like(r"stop\[1\] must be a string of 1 to 50 bytes, not .+\r\n"),
        source="0.9.3: stop array string too long",
    ),
    Case(
        "stop",
        PATH,
        {**ASK, "stop": " b", "stream": True},
        chunks=[{**HEAD, "choices": [choice("", "stop")]}, DONE],
        source="0.9.3: only the last chunk has no text",
    ),
    Case("n", PATH, {**ASK, "n": 1, "max_tokens": 1}, answer=whole(" ", 1), source="B.4: n is 1"),
    Case(
        "n",
        PATH,
        {**ASK, "n": 2},
        status=400,
        answer="n must be 1, not 2\r\n",
        source="C.1 F: n field must be 1",
    ),
    Case(
        "logprobs",
        PATH,
        {**ASK, "max_tokens": 1, "logprobs": 2},
        answer=whole(" ", 1),
        headers={"x-segue-ignored": "logprobs, model"},
        source="A.1 logprobs: always null",
    ),
    Case(
        "echo",
        PATH,
        {**ASK, "max_tokens": 1, "echo": True},
        answer=whole(" ", 1),
        headers={"x-segue-ignored": "echo, model"},
        source="A.1 echo: without effect",
    ),
    Case(
        "echo",
        PATH,
        {**ASK, "echo": 1},
        status=400,
        answer="echo must be true or false, not 1\r\n",
        source="0.9.3: echo field must be boolean",
    ),
    Case(
        "usage",
        PATH,
        {**ASK, "max_tokens": 1, "stream": True, "stream_options": {"include_usage": True}},
        chunks=[
            {**HEAD, "choices": [choice(" ", None)], "usage": None},
            {**HEAD, "choices": [choice("")], "usage": None},
            {**HEAD, "choices": [], "usage": usage(1, 1)},
            DONE,
        ],
        source="manual: stream_options",
    ),
    Case(
        "usage",
        "/llamafile/v1/models",
        None,
        method="GET",
        answer={
            "object": "list",
            "data": [
                {"id": MODEL, "object": "model", "created": NUMBER, "owned_by": "llamafile"},
            ],
        },
        source="B.4 /v1/models",
    ),
    Case(
        "token prompt",
        PATH,
        {**ASK, "prompt": [120]},
        status=400,
        answer="prompt must be a non-empty string, not a list of 1\r\n",
        source="A.1 prompt: a string only",
    ),
    Case(
        "token prompt",
        "/llamafile/tokenize?prompt=h%C3%A9&add_special=0",
        None,
        method="GET",
        answer={
            "add_special": False,
            "parse_special": False,
            "tokens": ["h", r"bytes:\xc3", r"bytes:\xa9"],
        },
        source="B.4 /tokenize",
    ),
    Case(
        "token prompt",
        "/llamafile/tokenize",
        {"prompt": "hi"},
        answer={"add_special": True, "parse_special": False, "tokens": ["h", "i"]},
        source="B.4 /tokenize",
    ),
    Case(
        "token prompt",
        "/llamafile/tokenize?prompt=a+b&parse_special=true",
        b"",
        answer={"add_special": True, "parse_special": True, "tokens": ["a", " ", "b"]},
        source="0.9.3: the query of a POST",
    ),
    *(
        Case(
            "token prompt",
            "/llamafile/tokenize?prompt=a&add_special=0&prompt=b&add_special=1",
            None if method == "GET" else b"",
            method=method,
            answer={"add_special": False, "parse_special": False, "tokens": ["a"]},
            source="0.9.3: of two fields of one name the first counts",
        )
        for method in ("GET", "POST")
    ),
    Case(
        "token prompt",
        "/llamafile/tokenize?prompt=hi",
        {"prompt": "body", "add_special": False},
        answer={"add_special": True, "parse_special": False, "tokens": ["h", "i"]},
        source="manual: the body is only consulted if the query has no prompt",
    ),
    Case(
        "token prompt",
        "/llamafile/tokenize?add_special=0&parse_special=1",
        {"prompt": "hi", "parse_special": False},
        answer={"add_special": False, "parse_special": False, "tokens": ["h", "i"]},
        source="0.9.3: the body goes before the query",
    ),
    Case(
        "token prompt",
        "/llamafile/tokenize?add_special=0",
        b"",
        status=400,
        answer="The body is empty: it must be a JSON object.\r\n",
        source="a prompt is required",
    ),
    Case(
        "batch",
        PATH,
        {**ASK, "prompt": ["x"]},
        status=400,
        answer=ANY,
        source="A.1 prompt: a string only",
    ),
    Case(
        "error",
        PATH,
        {**ASK, "prompt": ""},
        status=400,
        answer="the prompt is empty: it must hold at least one token\r\n",
        source="0.9.3: BOS alone is a prompt; this model has none",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x"},
        status=400,
        answer="model is required\r\n",
        source="manual: model is required",
    ),
    Case(
        "error",
        PATH,
        {**ASK, "temperature": 2.5},
        status=400,
        answer="temperature must be a number from 0 to 2, not 2.5\r\n",
        source="A.1 temperature",
    ),
    Case(
        "error",
        PATH,
        {**ASK, "suffix": "y"},
        status=400,
        answer=Like("suffix must be left out: .+\r\n"),
        source="A.1 suffix",
    ),
    Case("error", PATH, b"[]", status=400, answer=Like(".+\r\n"), source="A: non-object"),
    Case(
        "error",
        "/llamafile/nothing",
        {},
        status=404,
        answer=Like(".+\r\n"),
        source="C.1 F: 404 as text",
    ),
]
