"""Fields that speak to other parts of vLLM. They have no effect here, and what vLLM refuses in them is refused."""

from segue.bounds import MAX_TEXT_CHARS
from segue.dialects.fields.kinds import AnyObject, Boolean, Kind, LaxFlag, Text, Word
from segue.dialects.fields.table import Field, Table
from segue.dialects.vllm.kinds import ExtraArgs, LaxEndless, StrictEndless
from segue.dialects.vllm.rendered import PARSE_CONTEXT, REASONING, Offsets


def _idle(name: str, kind: Kind, nullable: bool = True) -> Field:
    return Field(name, kind, "No effect.", nullable=nullable)


_FLAG = LaxFlag(Boolean())

OF_REQUEST = Table(
    (
        _idle("watermarking", _FLAG),
        _idle("spaces_between_special_tokens", _FLAG, nullable=False),
        _idle("thinking_token_budget", StrictEndless(-1)),
        _idle("routed_experts_prompt_start", LaxEndless(0), nullable=False),
        _idle("session_id", Text(MAX_TEXT_CHARS)),
        _idle("return_token_offsets", _FLAG),
        _idle("mm_payload", Word("tensors", "none", unset=None), nullable=False),
        _idle("return_mm_kwargs", _FLAG),
        _idle("kv_transfer_params", AnyObject()),
        _idle("ec_transfer_params", AnyObject()),
        _idle("vllm_xargs", ExtraArgs()),
    )
)

# What SamplingParams has of these, and what else.
OF_SETTINGS = (
    *OF_REQUEST.pick(
        "watermarking",
        "spaces_between_special_tokens",
        "routed_experts_prompt_start",
    ).rows,
    _idle("thinking_token_budget", LaxEndless(-1)),
    _idle("flat_logprobs", _FLAG, nullable=False),
    _idle("skip_reading_prefix_cache", _FLAG),
    _idle("extra_args", AnyObject()),
)

# Of the request around SamplingParams.
OF_GENERATE = (
    *OF_REQUEST.pick("kv_transfer_params", "ec_transfer_params").rows,
    _idle("reasoning_ended", _FLAG),
    _idle("reasoning_parser_kwargs", REASONING),
    _idle("parse_context", PARSE_CONTEXT),
    _idle("token_offsets", Offsets()),
)
