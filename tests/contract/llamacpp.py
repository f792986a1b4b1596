"""llama.cpp's server: its OpenAI path, its native one, and the pages its clients read."""

from typing import Any

from tests.contract import ANY, CERTAIN, DONE, END_TOKEN, MODEL, NUMBER, Case, Like

PATH = "/llamacpp/v1/completions"
NATIVE = "/llamacpp/completion"

HEAD: dict[str, Any] = {
    "id": Like(r"cmpl-[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": MODEL,
    "system_fingerprint": Like(r"b0-fp_.+"),
}


def timings(predicted: int) -> dict[str, Any]:
    return {
        "cache_n": NUMBER,
        "prompt_n": NUMBER,
        "prompt_ms": NUMBER,
        "prompt_per_token_ms": NUMBER,
        "prompt_per_second": NUMBER,
        "predicted_n": predicted,
        "predicted_ms": NUMBER,
        "predicted_per_token_ms": NUMBER,
        "predicted_per_second": NUMBER,
    }


READING = {**timings(0), "predicted_ms": 0.0}


def ended(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "usage": {
            "completion_tokens": completion,
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": NUMBER},
        },
        "timings": timings(completion),
    }


def choice(
    text: str | Like, index: int = 0, reason: str | None = "length", **more: Any
) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": reason, **more}


def whole(*choices: dict[str, Any], prompt: int, completion: int) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), **ended(prompt, completion)}


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), **more}


def entries(tokens: str, num_top: int, first: Any = CERTAIN) -> list[dict[str, Any]]:
    return [
        {
            "id": ord(token),
            "token": token,
            "bytes": [ord(token)],
            "logprob": CERTAIN if i else first,
            "top_logprobs": [ANY] * num_top,
        }
        for i, token in enumerate(tokens)
    ]


def logprobs(tokens: str, num_top: int) -> dict[str, Any]:
    return {
        "content": entries(tokens, num_top),
        "tokens": list(tokens),
        "token_logprobs": [CERTAIN] * len(tokens),
        "top_logprobs": [ANY] * len(tokens),
        "text_offset": list(range(len(tokens))),
    }


def native(content: str, prompt: str = "x", **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "content": content,
        "tokens": [],
        "id_slot": -1,
        "stop": True,
        "model": MODEL,
        "tokens_predicted": len(content),
        "tokens_evaluated": len(prompt),
        "generation_settings": ANY,
        "prompt": prompt,
        "has_new_line": False,
        "truncated": False,
        "stop_type": "limit",
        "stopping_word": "",
        "tokens_cached": len(prompt) + max(len(content) - 1, 0),
        "timings": timings(len(content)),
        **more,
    }


def piece(content: str, predicted: int, evaluated: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "content": content,
        "tokens": [ord(each) for each in content],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": predicted,
        "tokens_evaluated": evaluated,
        **more,
    }


def error(message: str | Like, status: int = 400, kind: str = "invalid_request_error") -> Any:
    return {"error": {"code": status, "message": message, "type": kind}}


COMPLETIONS = [
    Case(
        "fold",
        PATH,
        {"model": "gpt-3.5-turbo", "prompt": "x", "max_tokens": 6, "temperature": 0.7},
        answer=whole(choice(" brown"), prompt=1, completion=6),
        source="B.1 /v1/completions, non-stream",
    ),
    Case(
        "stream",
        PATH,
        {"prompt": "x", "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}},
        chunks=[
            chunk(choice(" ", reason=None)),
            chunk(choice("b", reason=None)),
            chunk(choice(""), **ended(1, 2)),
            DONE,
        ],
        headers={"x-segue-ignored": "stream_options"},
        source="B.1 stream: usage on the last chunk whatever stream_options says",
    ),
    Case(
        "stream",
        PATH,
        {
            "prompt": "x",
            "n_predict": 1,
            "stream": True,
            "return_progress": True,
            "timings_per_token": True,
        },
        chunks=[
            chunk(
                choice("", reason=None),
                prompt_progress={"total": 1, "cache": 0, "processed": 0, "time_ms": 0.0},
                timings={**READING, "prompt_n": 0, "prompt_ms": 0.0},
            ),
            chunk(
                choice("", reason=None),
                prompt_progress={"total": 1, "cache": 0, "processed": 1, "time_ms": NUMBER},
                timings=READING,
            ),
            chunk(choice(" ", reason=None), timings=timings(1)),
            chunk(choice(""), **ended(1, 1)),
            DONE,
        ],
        source="B.1 stream, 2 and 3",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "stop": ["fox"]},
        answer=whole(choice(" brown ", reason="stop"), prompt=1, completion=10),
        source="B.1 finish_reason",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "logit_bias": [[END_TOKEN, 100]]},
        answer=whole(choice("", reason="stop"), prompt=1, completion=1),
        source="A.1 logit_bias as a list",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "n_predict": 2, "logit_bias": [["br", False]]},
        answer=whole(choice(Like(" [^br]")), prompt=1, completion=2),
        source="A.1 logit_bias: text, and false for a ban",
    ),
    Case(
        "n",
        PATH,
        {"prompt": ["x", "xx"], "n": 2, "max_tokens": 2},
        answer=whole(
            choice(" b", 0),
            choice(" b", 1),
            choice("br", 2),
            choice("br", 3),
            prompt=3,
            completion=8,
        ),
        source="B.1 batch × n: prompt-major",
    ),
    Case(
        "n",
        PATH,
        {"prompt": "x", "n_cmpl": 4097},
        status=400,
        answer=error("Field 'n_cmpl': Value must be between 1 <= value <= 4096, but got 4097"),
        source="C.1 and llama.vscode, which looks for these words",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 2, "logprobs": 2},
        answer=whole(choice(" b", logprobs=logprobs(" b", 2)), prompt=1, completion=2),
        source="B.1 logprobs: chat layout; the manual's lists beside it",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 1, "logprobs": 0},
        answer=whole(choice(" "), prompt=1, completion=1),
        source="A.1 logprobs: 0 is off",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x ", "max_tokens": 1, "echo": True, "logprobs": 1},
        answer=whole(
            choice(
                "x b",
                logprobs={
                    **logprobs("x b", 1),
                    "content": [
                        {**entries("x", 0, None)[0]},
                        *entries(" b", 1),
                    ],
                    "token_logprobs": [None, CERTAIN, CERTAIN],
                    "top_logprobs": [None, ANY, ANY],
                },
            ),
            prompt=2,
            completion=1,
        ),
        source="the manual's echo",
    ),
    Case(
        "usage",
        PATH,
        {"prompt": "x", "n": 2, "max_tokens": 1, "stream": True},
        chunks=[
            chunk(choice(" ", 0, None)),
            chunk(choice("", 0), **ended(1, 1)),
            chunk(choice(" ", 1, None)),
            chunk(choice("", 1), **ended(1, 1)),
            DONE,
        ],
        source="B.1 stream: one final chunk a choice, with its usage and timings",
    ),
    Case(
        "token prompt",
        PATH,
        {"prompt": [120, " ", 98], "max_tokens": 3},
        answer=whole(choice("row"), prompt=3, completion=3),
        source="A.1 prompt: mixed",
    ),
    Case(
        "batch",
        PATH,
        {"prompt": ["x", {"prompt_string": "xx"}, [120]], "max_tokens": 1},
        answer=whole(choice(" ", 0), choice("b", 1), choice(" ", 2), prompt=4, completion=3),
        source="A.1 prompt: array of any of its forms",
    ),
    Case(
        "error",
        PATH,
        {"max_tokens": 1},
        status=400,
        answer=error("prompt is required"),
        source="the manual's error example",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x", "n_predict": "many"},
        status=400,
        answer=error(
            "Field 'n_predict': value must be an integer from -1 to 2147483647, not \"many\""
        ),
        source="A general rules: wrong JSON type",
    ),
    Case("error", PATH, b"{", status=400, answer=error(Like(".+")), source="C.1, but 400 for 500"),
    Case(
        "error",
        PATH,
        {"prompt": "x" * 5000},
        status=400,
        answer={
            "error": {
                "code": 400,
                "message": Like("the request exceeds the available context size: .*5000 tokens.*"),
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5000,
                "n_ctx": 4096,
            }
        },
        source="C.1 exceed_context_size_error",
    ),
    Case(
        "error",
        "/llamacpp/nothing",
        {},
        status=404,
        answer=error(Like(".+"), 404, "not_found_error"),
        source="C.1 unknown path",
    ),
]

NATIVES = [
    Case(
        "fold",
        NATIVE,
        {"prompt": "x", "n_predict": 6, "return_tokens": True},
        answer=native(" brown", tokens=[32, 98, 114, 111, 119, 110]),
        source="B.1 /completion",
    ),
    Case(
        "fold",
        "/llamacpp/completions",
        {"prompt": "x", "n_predict": 0, "samplers": [], "response_fields": [""]},
        answer={},
        source="D.1: an editor warms the cache",
    ),
    Case(
        "fold",
        "/completion",
        {
            "prompt": "x",
            "n_predict": 2,
            "response_fields": ["content", "timings/predicted_n", "none/such"],
        },
        answer={"content": " b", "timings/predicted_n": 2},
        source="A.1 response_fields; the keys stay flat; at the root too",
    ),
    Case(
        "fold",
        NATIVE,
        {"prompt": "x", "n_predict": 1, "response_fields": ["generation_settings"]},
        answer={
            "generation_settings": {
                **dict.fromkeys(
                    [
                        "adaptive_target",
                        "dry_sequence_breakers",
                        "logit_bias",
                        "samplers",
                        "seed",
                    ],
                    ANY,
                ),
                "adaptive_decay": 0.9,
                "dry_allowed_length": 2,
                "dry_base": 1.75,
                "dry_multiplier": 0.0,
                "dry_penalty_last_n": 64,
                "dynatemp_exponent": 1.0,
                "dynatemp_range": 0.0,
                "frequency_penalty": 0.0,
                "grammar": "",
                "ignore_eos": False,
                "max_tokens": 1,
                "min_keep": 0,
                "min_p": 0.05,
                "mirostat": 0,
                "mirostat_eta": 0.1,
                "mirostat_tau": 5.0,
                "n_predict": 1,
                "n_probs": 0,
                "post_sampling_probs": False,
                "presence_penalty": 0.0,
                "repeat_last_n": 64,
                "repeat_penalty": 1.0,
                "stop": [],
                "stream": False,
                "temperature": 0.8,
                "top_k": 40,
                "top_n_sigma": 0.0,
                "top_p": 0.95,
                "typical_p": 1.0,
                "xtc_probability": 0.0,
                "xtc_threshold": 0.1,
            }
        },
        source="A.1: the defaults",
    ),
    Case(
        "stream",
        NATIVE,
        {"prompt": "x", "n_predict": 2, "stream": True, "n_probs": 1},
        chunks=[
            piece(" ", 1, completion_probabilities=entries(" ", 1)),
            piece("b", 2, completion_probabilities=entries("b", 1)),
            {**native(" b"), "content": ""},
        ],
        source="B.1 /completion, stream: no [DONE]",
    ),
    Case(
        "stop",
        NATIVE,
        {"prompt": "x", "stop": ["fox"]},
        answer=native(
            " brown ",
            tokens_predicted=10,
            tokens_cached=10,
            timings=timings(10),
            stop_type="word",
            stopping_word="fox",
        ),
        source="B.1 stop_type",
    ),
    Case(
        "stop",
        NATIVE,
        {"prompt": "x", "logit_bias": {str(END_TOKEN): 100}},
        answer=native("", stop_type="eos", tokens_predicted=1, timings=timings(1), tokens_cached=1),
        source="B.1 stop_type",
    ),
    Case(
        "stop",
        NATIVE,
        {"prompt": "x", "n_indent": 1, "logit_bias": [["\n", 100]]},
        answer=native(
            "\n", has_new_line=True, tokens_predicted=2, timings=timings(2), tokens_cached=2
        ),
        source="A.1 n_indent",
    ),
    Case(
        "stream",
        NATIVE,
        {
            "prompt": "x",
            "n_predict": 1,
            "stream": True,
            "return_progress": True,
            "timings_per_token": True,
        },
        chunks=[
            piece(
                "",
                0,
                prompt_progress={"total": 1, "cache": 0, "processed": 0, "time_ms": 0.0},
                timings={**READING, "prompt_n": 0, "prompt_ms": 0.0},
            ),
            piece(
                "",
                0,
                prompt_progress={"total": 1, "cache": 0, "processed": 1, "time_ms": NUMBER},
                timings=READING,
            ),
            piece(" ", 1, timings=timings(1)),
            {**native(" "), "content": ""},
        ],
        source="A.1 return_progress, timings_per_token",
    ),
    Case(
        "n",
        NATIVE,
        {"prompt": "x", "n_cmpl": 2, "n_predict": 1},
        answer=[native(" "), native(" ", index=1)],
        source="B.1: an array for several",
    ),
    Case(
        "logprobs",
        NATIVE,
        {"prompt": "x", "n_predict": 1, "n_probs": 2},
        answer=native(" ", completion_probabilities=entries(" ", 2)),
        source="B.1 completion_probabilities",
    ),
    Case(
        "logprobs",
        NATIVE,
        {"prompt": "x", "n_predict": 1, "n_probs": 1, "post_sampling_probs": True},
        answer=native(
            " ",
            completion_probabilities=[
                {"id": 32, "token": " ", "bytes": [32], "prob": 1.0, "top_probs": [ANY]}
            ],
        ),
        source="B.1 post_sampling_probs",
    ),
    Case(
        "stop",
        NATIVE,
        {"prompt": "x", "grammar": 'root ::= "yes" | "no"', "response_fields": ["stop_type"]},
        answer={"stop_type": "eos"},
        source="A.1 grammar",
    ),
    Case(  # a dead end is neither an end nor a limit
        "stop",
        NATIVE,
        {
            "prompt": "x",
            "grammar": 'root ::= "abc"',
            "logit_bias": [[98, False]],
            "response_fields": ["content", "stop_type"],
        },
        answer={"content": "a", "stop_type": "none"},
        source="B.1 stop_type",
    ),
    Case(  # what already meets its constraint has ended, though a ban keeps it from going on
        "stop",
        NATIVE,
        {
            "prompt": "x",
            "grammar": 'root ::= "ab" "c"?',
            "logit_bias": [[99, False], [END_TOKEN, False]],
            "response_fields": ["content", "stop_type"],
        },
        answer={"content": "ab", "stop_type": "eos"},
        source="B.1 stop_type",
    ),
    Case(  # a schema that asks to be read leniently: what has no effect is named, and where it stands
        "fold",
        NATIVE,
        {
            "prompt": "x",
            "json_schema": {
                "$ref": "#/$comment",
                "$comment": {"const": 1, "maxLen": 3, "format": "bogus"},
                "x-guidance": {"lenient": True},
            },
            "frequency": 1,
            "response_fields": ["content"],
        },
        answer={"content": "1"},
        headers={
            "x-segue-ignored": "frequency, json_schema#/$comment/maxLen, json_schema#/$comment/format"
        },
        source="A.1 json_schema",
    ),
    Case(
        "batch",
        NATIVE,
        {"prompt": ["x", "xx"], "n_predict": 1},
        answer=[native(" "), native("b", "xx", index=1)],
        source="B.1: an array for several",
    ),
]

INFILLS = [
    Case(
        "fold",
        "/infill",
        {
            "id_slot": 0,
            "input_prefix": "def f():\n",
            "input_suffix": "\n",
            "input_extra": [{"filename": "a.py", "text": "x = 1\n", "time": 3}],
            "prompt": "  return",
            "n_predict": 4,
            "stop": [],
            "n_indent": 2,
            "top_k": 40,
            "top_p": 0.9,
            "samplers": ["top_k", "top_p"],
            "stream": False,
            "cache_prompt": True,
            "t_max_prompt_ms": 500,
            "t_max_predict_ms": 1000,
            "response_fields": [
                "content",
                "timings/prompt_n",
                "timings/prompt_ms",
                "timings/predicted_n",
                "timings/predicted_per_second",
                "truncated",
                "tokens_cached",
            ],
        },
        answer={
            "content": Like(".{4}"),
            "timings/prompt_n": NUMBER,
            "timings/prompt_ms": NUMBER,
            "timings/predicted_n": 4,
            "timings/predicted_per_second": NUMBER,
            "truncated": False,
            "tokens_cached": NUMBER,
        },
        headers={"x-segue-infill": "fim", "x-segue-ignored": "id_slot, t_max_prompt_ms"},
        source="D.1; a.1 llama.vim",
    ),
    Case(
        "n",
        "/llamacpp/infill",
        {
            "input_prefix": "a",
            "input_suffix": [98],
            "n_cmpl": 2,
            "n_predict": 1,
            "response_fields": ["content"],
        },
        answer=[{"content": Like(".")}] * 2,
        source="a.1 llama.vscode: an array for n_cmpl above 1",
    ),
    Case(
        "error",
        "/infill",
        {"input_prefix": "a"},
        status=400,
        answer=error("input_suffix is required"),
        source="D.1, but 400 for 500",
    ),
    Case(
        "error",
        "/infill",
        {"input_prefix": "a", "input_suffix": "", "input_extra": [{"filename": "x"}]},
        status=400,
        answer=error(
            "Field 'input_extra[0]': value must be an object with a text, not an object of 1"
        ),
        source="D.1 checks",
    ),
]

PAGES = [
    Case(
        "token prompt",
        "/llamacpp/tokenize",
        {"content": "hi"},
        answer={"tokens": [104, 105]},
        source="B.1 /tokenize",
    ),
    Case(
        "token prompt",
        "/llamacpp/tokenize",
        {"content": ["é", 7], "with_pieces": True},
        answer={
            "tokens": [
                {"id": 195, "piece": [195]},
                {"id": 169, "piece": [169]},
                {"id": 7, "piece": "\x07"},
            ]
        },
        source="B.1 /tokenize: with_pieces",
    ),
    Case("token prompt", "/llamacpp/tokenize", {}, answer={"tokens": []}, source="B.1 /tokenize"),
    Case(
        "token prompt",
        "/llamacpp/detokenize",
        {"tokens": [104, 105]},
        answer={"content": "hi"},
        source="B.1 /detokenize",
    ),
    Case(
        "usage",
        "/llamacpp/health",
        None,
        method="GET",
        answer={"status": "ok"},
        source="B.1 /health",
    ),
    Case(
        "usage",
        "/llamacpp/metrics",
        None,
        method="GET",
        answer=Like(r".*\nllamacpp:tokens_predicted_total [0-9]+\n.*"),
        headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"},
        source="B.1 /metrics",
    ),
    Case(
        "usage",
        "/props",
        None,
        method="GET",
        answer={
            "default_generation_settings": {"params": ANY, "n_ctx": 4096},
            "total_slots": 256,
            "model_alias": MODEL,
            "model_ftype": "none",
            "model_path": f"{MODEL}.gguf",
            "modalities": {"vision": False, "audio": False},
            "endpoint_slots": True,
            "endpoint_props": False,
            "endpoint_metrics": True,
            "chat_template": "",
            "bos_token": "",
            "eos_token": "<|endoftext|>",
            "build_info": Like("segue-.+"),
            "is_sleeping": False,
            "deterministic": True,
            "system_fingerprint": Like("fp_.+"),
        },
        source="B.1 /props",
    ),
    Case(
        "usage",
        "/slots?fail_on_no_slot=1",
        None,
        method="GET",
        answer=[
            {"id": slot, "n_ctx": 4096, "speculative": True, "is_processing": False}
            for slot in range(256)
        ],
        source="B.1 /slots",
    ),
    Case(
        "usage",
        "/llamacpp/v1/models",
        None,
        method="GET",
        answer={
            "models": [
                {"name": MODEL, "model": MODEL, "capabilities": ["completion"], "details": ANY}
            ],
            "object": "list",
            "data": [
                {
                    "id": MODEL,
                    "aliases": [],
                    "tags": [],
                    "object": "model",
                    "created": NUMBER,
                    "owned_by": "llamacpp",
                    "meta": {
                        "n_vocab": 264,
                        "n_ctx": 4096,
                        "n_ctx_train": 0,
                        "n_params": 0,
                        "size": 0,
                        "ftype": "none",
                    },
                }
            ],
        },
        source="B.1 /v1/models",
    ),
]

CASES = COMPLETIONS + NATIVES + INFILLS + PAGES
