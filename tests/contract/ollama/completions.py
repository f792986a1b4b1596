"""Completions of Ollama, on both paths, and what is refused."""

from typing import Any

from tests.contract import ANY, CERTAIN, DONE, MODEL, NUMBER, SCRIPT, Case, Like

PATH = "/ollama/api/generate"
ROOT_PATH = "/api/generate"
TEXT_PATH = "/ollama/v1/completions"

TIME = Like(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def line(text: str, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "created_at": TIME, "response": text, "done": False, **more}


def last(text: str, prompt: int, completion: int, reason: str = "length", **more: Any) -> Any:
    """All of the last line that is not left out because it is zero."""
    return {
        **line(text),
        "done": True,
        "done_reason": reason,
        "total_duration": NUMBER,
        "load_duration": NUMBER,
        "prompt_eval_count": prompt,
        "prompt_eval_duration": NUMBER,
        "prompt_eval_cached_count": NUMBER,
        "eval_count": completion,
        "eval_duration": NUMBER,
        **more,
    }


def ask(prompt: str = "x", num_predict: int = 2, **body: Any) -> dict[str, Any]:
    options = {"num_predict": num_predict, **body.pop("options", {})}
    return {"model": MODEL, "prompt": prompt, "raw": True, "options": options, **body}


HEAD: dict[str, Any] = {
    "id": Like(r"cmpl-[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": MODEL,
    "system_fingerprint": "fp_ollama",
}


def choice(text: str, reason: str | None = "length") -> dict[str, Any]:
    return {"text": text, "index": 0, "finish_reason": reason}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": NUMBER},
    }


def scored(token: str, **more: Any) -> dict[str, Any]:
    return {"token": token, "logprob": CERTAIN, "bytes": [ord(token)], **more}


def refused(body: dict[str, Any], message: str, source: str, status: int = 400) -> Case:
    answer = {"error": Like(message)}
    return Case("error", PATH, {**ask(), **body}, status=status, answer=answer, source=source)


COMPLETIONS = [
    Case(
        "fold",
        PATH,
        ask(stream=False),
        answer=last(" b", 1, 2),
        source="B.3 non-stream; context omitted with raw",
    ),
    Case(
        "fold",
        ROOT_PATH,
        {**ask(stream=False), "raw": False, "context": [120]},
        answer=last("br", 2, 2, context=[120, 120, *b"br"]),
        source="B.3 context",
    ),
    Case(
        "fold",
        PATH,
        {
            "model": f"{MODEL}:latest",
            "prompt": "x",
            "system": "y",
            "template": "{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}{{ .Response }}z",
            "stream": False,
            "options": {"num_predict": 1},
        },
        answer={**last("b", 2, 1, context=[*b"yxb"]), "model": f"{MODEL}:latest"},
        source="A system, template",
    ),
    Case(
        "fold",
        TEXT_PATH,
        {"model": MODEL, "prompt": "x", "max_tokens": 2, "echo": True},
        answer={**HEAD, "choices": [choice(" b")], "usage": usage(1, 2)},
        headers={"x-segue-ignored": "echo"},
        source="B.3 /v1/completions non-stream: no logprobs key; echo ignored",
    ),
    Case(
        "stream",
        PATH,
        {**ask(), "stream": None},
        chunks=[line(" "), line("b"), last("", 1, 2)],
        headers={"content-type": "application/x-ndjson"},
        source="seed 000; B.3 stream is the default, null too; no terminator",
    ),
    Case(
        "stream",
        TEXT_PATH,
        {"model": MODEL, "prompt": "x", "max_tokens": 1, "stream": True},
        chunks=[
            {**HEAD, "choices": [choice(" ", None)]},
            {**HEAD, "choices": [choice("")]},
            DONE,
        ],
        source="B.3 /v1/completions stream",
    ),
    Case(
        "stop",
        PATH,
        ask(num_predict=-1, options={"stop": ["n f"]}, stream=False),
        answer=last(" brow", 1, 8, "stop"),
        source="A options.stop; B.3 done_reason",
    ),
    Case(
        "stop",
        TEXT_PATH,
        {"model": MODEL, "prompt": "x", "stop": "fox"},
        answer={**HEAD, "choices": [choice(" brown ", "stop")], "usage": usage(1, 10)},
        source="A max_tokens unbounded; stop as string",
    ),
    Case(
        "n",
        PATH,
        ask(stream=False, n=2),
        answer=last(" b", 1, 2),
        headers={"x-segue-ignored": "n"},
        source="A n is ignored",
    ),
    Case(
        "logprobs",
        PATH,
        ask(stream=False, logprobs=True),
        answer=last(" b", 1, 2, logprobs=[scored(" "), scored("b")]),
        source="B.3 logprobs without top_logprobs",
    ),
    Case(
        "logprobs",
        PATH,
        ask(num_predict=1, logprobs=True, top_logprobs=1),
        chunks=[
            line(" ", logprobs=[scored(" ", top_logprobs=[scored(" ")])]),
            last("", 1, 1),
        ],
        source="B.3 logprobs per chunk, top_logprobs",
    ),
    Case(
        "echo",
        PATH,
        ask(stream=False, echo=True),
        answer=last(" b", 1, 2),
        headers={"x-segue-ignored": "echo"},
        source="A echo is ignored",
    ),
    Case(
        "usage",
        TEXT_PATH,
        {
            "model": MODEL,
            "prompt": "x",
            "max_tokens": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        chunks=[
            {**HEAD, "choices": [choice(" ", None)], "usage": None},
            {**HEAD, "choices": [choice("")], "usage": None},
            {**HEAD, "choices": [], "usage": usage(1, 1)},
            DONE,
        ],
        source="B.3 include_usage; difference: null instead of zeros",
    ),
    Case(
        "usage",
        PATH,
        {"model": MODEL},
        answer={**line(""), "done": True, "done_reason": "load"},
        source="B.3 done_reason load: an empty prompt; one object even if streamed",
    ),
    Case(
        "usage",
        PATH,
        {"model": MODEL, "prompt": "", "stream": False, "keep_alive": "5m"},
        answer={**line(""), "done": True, "done_reason": "load"},
        source="A keep_alive",
    ),
    Case(
        "usage",
        TEXT_PATH,
        {"model": MODEL, "prompt": ""},
        answer={**HEAD, "choices": [choice("", "load")], "usage": usage(0, 0)},
        source="A prompt: empty on /c",
    ),
    Case(
        "usage",
        PATH,
        ask("x" * 5000, 1, stream=False, truncate=True),
        answer=last(ANY, 4095, 1),
        headers={"x-segue-truncated": "905"},
        source="A truncate; difference: only where asked for, and reported",
    ),
    Case(
        "fold",
        PATH,
        {**ask(stream=False), "raw": False, "suffix": "y"},
        answer=last("wn", 5, 2, context=[258, 120, 259, 121, 260, *b"wn"]),
        headers={"x-segue-infill": "fim"},
        source="A suffix",
    ),
    Case(
        "fold",
        PATH,
        ask("", stream=False, suffix="y"),
        answer=last("ow", 4, 2),
        headers={"x-segue-infill": "fim"},
        source="difference: a suffix without a prompt",
    ),
    Case(
        "stop",
        PATH,
        ask(num_predict=9, stream=False, format={"enum": [1]}),
        answer=last("1", 1, 1, "stop"),
        source="A format",
    ),
    refused({"format": "yaml"}, 'format must be "json" or .*', "A format"),
    refused({"format": {"type": 7}}, "format: .*", "A format"),
    refused({"prompt": [120]}, "prompt must be a string.*", "A string only"),
    Case(
        "token prompt",
        PATH,
        ask(stream=False) | {"prompt": [120]},
        status=400,
        answer={"error": Like("prompt must be a string.*")},
        source="A string only",
    ),
    Case(
        "batch",
        TEXT_PATH,
        {"model": MODEL, "prompt": ["x"]},
        status=400,
        answer={
            "error": {
                "message": Like("prompt must be a string.*"),
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
        },
        source="C.1 /c errors; A string only",
    ),
    refused({"system": "y"}, "system .*", "A raw with system → 400"),
    refused({"template": "y"}, "template .*", "A raw with template → 400"),
    refused({"context": [1]}, "context .*", "A raw with context → 400"),
    refused({"top_logprobs": 21}, "top_logprobs .*", "A top_logprobs 0…20"),
    refused({"think": True}, "think .* thinking.*", "A think on a model that does not"),
    refused({"options": {"top_k": "x"}}, "options.top_k must be .*", "difference: 400, not 500"),
    refused({"keep_alive": "x"}, "keep_alive must be .*", "A keep_alive"),
    refused({"images": ["aGk="]}, "images must be left out.*", "A images"),
    refused({"prompt": "x" * 5000}, ".*5000 tokens.*", "difference: never cut in silence"),
    refused(
        {"raw": False, "template": "{{ range .Messages }}{{ end }}"},
        "template has .*",
        "difference: other templates are refused",
    ),
    refused({"model": "llama3"}, "model 'llama3' not found.*", "C.1 404", status=404),
    Case(
        "error",
        "/ollama/api/nothing",
        {},
        status=404,
        answer="404 page not found",
        source="C.1 unknown path: text",
    ),
    Case(
        "error",
        PATH,
        None,
        method="GET",
        status=405,
        answer="405 method not allowed",
        source="C.1 wrong method: text",
    ),
]

assert SCRIPT.startswith(" brown")  # the texts above
