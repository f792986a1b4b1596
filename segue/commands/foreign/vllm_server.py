"""Flags of vLLM's server, those that its recipes carry, and what they are here."""

from segue.commands.foreign import words

_ADAPTERS = "here it is --lora NAME=FILE.gguf"
_LESS_LOG = "here it is --log-level warning"
_MEMORY = "here it is --kv-memory-mib N"
_ORIGIN = "here it is --cors-origin ORIGIN"
_FINGERPRINT = "it is made of all that answers depend on"
_SPECULATION = f"{words.DRAFTS}; of --engine vllm it is --vllm-option speculative_config=…"

_SERVER = {
    "--max-num-seqs": words.SLOTS,
    "--max-model-len": words.CONTEXT,
    "--max-num-batched-tokens": words.ROWS,
    "--long-prefill-token-threshold": "there is nothing to choose: long prompts leave room for short ones",
    "--kv-cache-dtype": words.KV_TYPE,
    "--quantization": words.AS_IT_IS,
    "--served-model-name": words.NAME,
    "--override-generation-config": words.SAMPLING,
    **dict.fromkeys(("--enable-prefix-caching", "--enable-chunked-prefill"), words.ALWAYS),
    **dict.fromkeys(("--enable-log-requests", "--enable-request-id-headers"), words.ALWAYS),
    **dict.fromkeys(
        ("--enable-prompt-tokens-details", "--enable-server-load-tracking"), words.ALWAYS
    ),
    **dict.fromkeys(("--enable-per-request-metrics", "--enable-scale-out"), words.ALWAYS),
    "--tokens-only": "/vllm/inference/v1/generate is always there, beside the others",
    **dict.fromkeys(("--enable-tokenizer-info-endpoint", "--async-scheduling"), words.ALWAYS),
    "--enable-force-include-usage": f"{words.OF_REQUEST}, stream_options.include_usage",
    "--return-tokens-as-token-ids": f"{words.OF_REQUEST}, return_tokens_as_token_ids",
    "--enable-prompt-embeds": "prompts are text or token ids",
    "--logprobs-mode": "log-probabilities are the model's own",
    **dict.fromkeys(("--fingerprint-mode", "--fingerprint-value"), _FINGERPRINT),
    **dict.fromkeys(("--enable-lora", "--lora-modules"), _ADAPTERS),
    "--download-dir": "here it is --cache-dir PATH; models of Hugging Face stay in HF_HOME",
    **dict.fromkeys(("--disable-log-stats", "--disable-fastapi-docs"), words.WITHOUT),
    **dict.fromkeys(("--disable-log-requests", "--disable-uvicorn-access-log"), _LESS_LOG),
    "--disable-access-log-for-endpoints": "checks of health are logged with --log-level debug only",
    "--uvicorn-log-level": "here it is --log-level LEVEL",
    "--log-config-file": "here it is --log-format FORMAT and --log-level LEVEL",
    "--max-log-len": "prompts are logged with --log-prompts only",
    "--enable-log-outputs": "answers are never logged",
    "--otlp-traces-endpoint": "here it is --otlp-endpoint URL",
    "--speculative-config": _SPECULATION,
    **dict.fromkeys(("-sc", "--spec-method", "--spec-tokens"), _SPECULATION),
    "--spec-model": "here it is --draft FILE",
    "--enable-sleep-mode": "here it is --keep-alive-s N",
    "--shutdown-timeout": "here it is --drain-timeout N",
    "--sse-keep-alive-interval": "here it is --sse-ping-interval N",
    **dict.fromkeys(
        ("--max-num-queued-reqs", "--max-num-queued-tokens"), "here it is --max-queue N"
    ),
    **dict.fromkeys(("--enable-auto-tool-choice", "--tool-call-parser"), words.NO_CHAT),
    **dict.fromkeys(
        ("--reasoning-parser", "--tool-server", "--language-model-only"), words.NO_CHAT
    ),
    **dict.fromkeys(("--limit-mm-per-prompt", "--mm-processor-kwargs"), words.NO_CHAT),
    **dict.fromkeys(("--chat-template-content-format", "--skip-mm-profiling"), words.NO_CHAT),
    "--default-chat-template-kwargs": words.NO_CHAT,
    **dict.fromkeys(("--response-role", "--tool-parser-plugin"), words.NO_CHAT),
    **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs"), words.NO_TLS),
    **dict.fromkeys(("--ssl-cert-reqs", "--ssl-ciphers", "--enable-ssl-refresh"), words.NO_TLS),
    **dict.fromkeys(("--url-prefix", "--root-path"), words.PREFIX),
    **dict.fromkeys(("--gpu-memory-utilization", "--kv-cache-memory-bytes"), _MEMORY),
    **dict.fromkeys(("--api-server-count", "--workers"), "here it is --server-processes N"),
    **dict.fromkeys(("--allowed-origins", "--allowed-methods", "--allowed-headers"), _ORIGIN),
    **dict.fromkeys(
        ("--guided-decoding-backend", "--structured-outputs-config"), words.ONE_COMPILER
    ),
}

_ENGINE_ARGUMENTS = (
    *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--dtype"),
    *("--trust-remote-code", "--enforce-eager", "--load-format", "--tokenizer", "--revision"),
    *("--tokenizer-mode", "--hf-overrides", "--block-size", "--swap-space", "--cpu-offload-gb"),
    *("--max-loras", "--max-lora-rank", "--compilation-config", "--distributed-executor-backend"),
    *("--enable-expert-parallel", "--attention-backend", "--attention-config", "--all2all-backend"),
    *("--data-parallel-size-local", "--data-parallel-address", "--data-parallel-rpc-port"),
    *("--data-parallel-backend", "--data-parallel-rank", "--nnodes", "--node-rank"),
    *("--master-addr", "--master-port", "--decode-context-parallel-size", "--enable-eplb"),
    *("--prefill-context-parallel-size", "--enable-dbo", "--moe-backend", "--kv-transfer-config"),
    *("--kv-events-config", "--kv-offloading-size", "--optimization-level", "--performance-mode"),
    *("--config-format", "--hf-config-path", "--tokenizer-revision", "--code-revision"),
    *("--model-impl", "--model-loader-extra-config", "--safetensors-load-strategy"),
    *("--disable-custom-all-reduce", "--num-gpu-blocks-override", "--logits-processors"),
    *("--cudagraph-capture-sizes", "--mamba-cache-dtype", "--max-cpu-loras", "--lora-dtype"),
    *("--fully-sharded-loras", "--worker-cls", "--worker-extension-cls", "--additional-config"),
)
_SHORT_ENGINE_ARGUMENTS = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-cc": "--compilation-config",
    "-ac": "--attention-config",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
}


def _of_engine(flag: str) -> str:
    name = flag[2:].replace("-", "_")
    return f"it is for GPUs, with --engine vllm: --vllm-option {name}=VALUE"


VLLM_SERVER = {
    **_SERVER,
    **{flag: _of_engine(flag) for flag in _ENGINE_ARGUMENTS},
    **{short: _of_engine(flag) for short, flag in _SHORT_ENGINE_ARGUMENTS.items()},
}
