"""Answers to tokens, in tokens: `/inference/v1/generate`."""

from typing import Any

from tests.contract import ANY, CERTAIN, DONE, MODEL, NUMBER, Case, Like
from tests.contract.vllm.shapes import drawn, error, in_full, scored, usage

PATH = "/vllm/inference/v1/generate"
HEAD: dict[str, Any] = {"request_id": Like(r"generate-tokens-[0-9a-f]{24}")}
X = [ord("x")]
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def choice(drew: str, index: int = 0, *, is_last: bool = True, **more: Any) -> dict[str, Any]:
    base = {
        "index": index,
        "finish_reason": "length" if is_last else None,
        "stop_reason": None,
        "token_ids": [ord(each) for each in drew],
        "routed_experts": None,
        "sampling_mask": None,
        "weight_versions": drawn(len(drew)) if is_last else None,
        "logprobs": None,
    }
    return {**base, **more}


def whole(*choices: dict[str, Any], usage: dict[str, Any], **more: Any) -> dict[str, Any]:
    base = {
        **HEAD,
        "model": MODEL,
        "created": NUMBER,
        "usage": in_full(usage),
        "prompt_logprobs": None,
        "prompt_token_id_logprobs": None,
        "prompt_token_ids": None,
        "mm_placeholders": None,
        "metrics": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "output_mode": "tokens",
        "choices": list(choices),
    }
    return {**base, **more}


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "usage": None, "output_mode": "tokens", "choices": list(choices), **more}


def numbered(text: str, logprob: Any, rank: int) -> dict[str, Any]:
    return {"token_id": ord(text), "logprob": logprob, "rank": rank}


def asked(*, token_ids: Any = X, sampling_params: Any = None, **more: Any) -> dict[str, Any]:
    return {"token_ids": token_ids, "sampling_params": sampling_params or {}, **more}


def refused(body: dict[str, Any], param: str, source: str) -> Case:
    answer = error(Like(rf"{param}\W.*\(parameter={param}\)"), param, 400)
    return Case("error", PATH, body, status=400, answer=answer, source=source)


GENERATED = [
    Case(
        "token prompt",
        PATH,
        asked(sampling_params={"max_tokens": 2}, request_id="r", return_token_ids=True),
        answer=whole(
            choice(" b"), usage=usage(1, 2), request_id="generate-tokens-r", prompt_token_ids=X
        ),
        source="token_in_token_out.md: response fields",
    ),
    Case(
        "stop",
        PATH,
        asked(sampling_params={"stop": "ow"}, output_mode="text"),
        answer=whole(
            choice(
                " brow",
                text=" br",
                finish_reason="stop",
                stop_reason="ow",
            ),
            usage=usage(1, 5),
            output_mode="text",
        ),
        source="token_in_token_out.md: no max_tokens is no 16; token_ids keeps the stop string",
    ),
    Case(
        "logprobs",
        PATH,
        asked(
            token_ids=[ord("x"), ord(" ")],
            sampling_params={"max_tokens": "1", "logprobs": 1, "prompt_logprobs": 0},
        ),
        answer=whole(
            choice(
                "b",
                logprobs={
                    "content": [
                        {
                            **numbered("b", CERTAIN, 1),
                            "top_logprobs": [numbered("b", CERTAIN, 1)],
                        }
                    ]
                },
            ),
            usage=usage(2, 1),
            prompt_logprobs=[None, scored(" ")],
        ),
        source="renderer.md: Generate Output Logprobs",
    ),
    Case(
        "logprobs",
        PATH,
        asked(
            sampling_params={"max_tokens": 1, "logprobs": 1, "allowed_token_ids": [ord("z")]},
            output_mode="text",
        ),
        answer=whole(
            choice(
                "z",
                text="z",
                logprobs={
                    "content": [
                        {
                            "token": "z",
                            "logprob": ANY,
                            "bytes": [ord("z")],
                            "top_logprobs": [
                                {"token": "z", "logprob": ANY, "bytes": [ord("z")]},
                                {"token": " ", "logprob": CERTAIN, "bytes": [32]},
                            ],
                        }
                    ]
                },
            ),
            usage=usage(1, 1),
            output_mode="text",
        ),
        source="token_in_token_out.md: Logprobs; the drawn token comes first, beside the likeliest",
    ),
    Case(
        "stream",
        PATH,
        asked(sampling_params={"max_tokens": 2}, return_token_ids=True, **STREAM),
        chunks=[
            chunk(choice(" ", is_last=False), prompt_token_ids=X),
            chunk(choice("b", is_last=False)),
            chunk(choice("", weight_versions=drawn(2))),
            chunk(usage=usage(1, 2)),
            DONE,
        ],
        source="serve_tokens_stream_generator: the prompt's ids in the first chunk, usage in the last",
    ),
    Case(
        "usage",
        PATH,
        asked(
            sampling_params={"max_tokens": 1, "bad_words": None, "stream_interval": 2**40},
            stream_options={"include_usage": True},
        ),
        answer=whole(choice(" "), usage=usage(1, 1)),
        headers={
            "x-segue-ignored": "stream_options.include_usage, sampling_params.stream_interval"
        },
        source="GenerateRequest asks for no stream beside stream_options; SamplingParams.bad_words may be null",
    ),
    Case(
        "usage",
        PATH,
        asked(
            sampling_params={"max_tokens": 1},
            stream=True,
            stream_options={"include_usage": True, "continuous_usage_stats": True},
        ),
        chunks=[
            chunk(choice(" ", is_last=False), usage=in_full(usage(1, 1))),
            chunk(choice("", weight_versions=drawn(1)), usage=in_full(usage(1, 1))),
            chunk(usage=usage(1, 1)),
            DONE,
        ],
        source="serve_tokens_stream_generator: chunks are written with what is null, the last one without",
    ),
    Case(
        "n",
        PATH,
        asked(sampling_params={"n": 2, "max_tokens": 1, "seed": 1}),
        answer=whole(choice(" "), choice(" ", 1), usage=usage(1, 2)),
        source="SamplingParams.n",
    ),
    refused({"sampling_params": {}}, "token_ids", "token_ids is required"),
    refused(asked(token_ids=[]), "token_ids", "min_length=1"),
    refused(asked(token_ids="x"), "token_ids", "a list"),
    refused(asked(output_mode="derender"), "output_mode", "difference: nothing is parsed"),
    refused(asked(features={"mm_hashes": {}}), "features", "multimodal input"),
    *(
        refused(asked(sampling_params={name: value}), f"sampling_params.{name}", source)
        for name, value, source in (
            ("max_tokens", 0, "SamplingParams.max_tokens of 1 and more"),
            ("temperature", 3, "SamplingParams._verify_args"),
            ("logprob_token_ids", [1], "difference: not known here"),
            ("prompt_logprob_token_ids", [[1]], "difference: not known here"),
            ("prompt_logprob_start", 0, "vLLM 0.33: SamplingParams._validate_logprobs"),
            ("trace_decode_token_ids", [1], "difference: an answer of other tokens would be wrong"),
            ("guided_regex", "a", "a constraint is never passed by"),
        )
    ),
]
