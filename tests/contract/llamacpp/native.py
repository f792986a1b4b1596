"""The native path."""

from tests.contract import ANY, END_TOKEN, NUMBER, Case
from tests.contract.llamacpp.shapes import NATIVE, READING, entries, native, piece, timings

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
                "lora": [],
                "max_tokens": 1,
                "min_keep": 0,
                "min_p": 0.05,
                "mirostat": 0,
                "mirostat_eta": 0.1,
                "mirostat_tau": 5.0,
                "n_discard": 0,
                "n_keep": 0,
                "n_predict": 1,
                "n_probs": 0,
                "post_sampling_probs": False,
                "presence_penalty": 0.0,
                "repeat_last_n": 64,
                "repeat_penalty": 1.0,
                "stop": [],
                "stream": False,
                "temperature": 0.8,
                "timings_per_token": False,
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
