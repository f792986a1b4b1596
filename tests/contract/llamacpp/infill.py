"""/infill."""

from tests.contract import NUMBER, Case, Like
from tests.contract.llamacpp.shapes import error

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
        headers={"x-segue-infill": "fim", "x-segue-ignored": "t_max_prompt_ms"},
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
            "Field 'input_extra[0]': value must be an object with a text, "
            'not an object with "filename"'
        ),
        source="D.1 checks",
    ),
]
