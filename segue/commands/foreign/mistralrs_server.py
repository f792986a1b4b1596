"""Flags of mistral.rs' server, those that are about completions, and what they are here."""

from segue.commands.foreign import words

_OF_FILE = "the model's file tells it"
_ADAPTER = "here it is --lora NAME=FILE.gguf"
_ADAPTERS = "those are served that --lora names"
_MEMORY = "here it is --kv-memory-mib N"
_REPOSITORY = "write the file with its repository: segue serve hf:OWNER/REPO/FILE.gguf"

MISTRALRS_SERVER = {
    "--model-id": words.FILE,
    **dict.fromkeys(("-f", "--quantized-file"), _REPOSITORY),
    **dict.fromkeys(("--arch", "--format", "--tok-model-id", "--gqa"), _OF_FILE),
    **dict.fromkeys(("--isq", "--quant", "--from-uqff", "--isq-organization"), words.AS_IT_IS),
    "--imatrix": words.AS_IT_IS,
    "-p": "here it is --port N",
    "--serve-ip": "here it is --host ADDRESS",
    **dict.fromkeys(("--max-seqs", "--max-batch-size"), words.SLOTS),
    **dict.fromkeys(("--max-seq-len", "--pa-context-len"), words.CONTEXT),
    **dict.fromkeys(("--pa-memory-mb", "--pa-memory-fraction"), _MEMORY),
    "--pa-cache-type": words.KV_TYPE,
    **dict.fromkeys(("--prefix-cache-n", "--paged-attn", "--no-kv-cache"), words.ALWAYS),
    **dict.fromkeys(("--device-layers", "--topology"), words.NO_GPU),
    "--cpu": "it is so, without --engine vllm",
    "--token-source": words.TOKEN,
    "--hf-cache": "models of Hugging Face stay in HF_HOME",
    **dict.fromkeys(("--xlora", "--legacy-lora"), _ADAPTER),
    **dict.fromkeys(("--lora-max-adapters", "--lora-max-rank", "--lora-max-bytes"), _ADAPTERS),
    **dict.fromkeys(("--mtp", "--mtp-n-predict"), words.DRAFTS),
    "--mtp-model": "here it is --draft FILE",
    "--disable-access-log": "here it is --log-level warning",
    "--access-log-format": "here it is --log-format FORMAT",
    "--access-log-health": words.LOUD,
    **dict.fromkeys(("--disable-metrics", "--disable-request-id-header", "--no-ui"), words.WITHOUT),
    **dict.fromkeys(("--agent", "--enable-search", "--enable-code-execution"), words.NO_CHAT),
    **dict.fromkeys(("--enable-shell", "--mcp-config", "--mcp-port"), words.NO_CHAT),
    **dict.fromkeys(("--max-tool-rounds", "--jinja-explicit", "--max-num-images"), words.NO_CHAT),
}
