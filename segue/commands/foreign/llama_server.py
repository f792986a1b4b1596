"""Flags of llama.cpp's server, all that its manual has, and what they are here."""

from segue.commands.foreign import words

_FIELD = "here it is --default {0}=VALUE"
_STEPS = """here it is --default 'samplers=["top_k","temperature"]', in the order wanted"""
_NO_SPEED = "it is in the timings of an answer, and in /metrics"
_CACHE = "the prefix cache keeps what it has room for: --kv-memory-mib N"
_LOG = "here it is --log-format text or json"
_DRAFT = "here it is --draft FILE"
_ONE_MACHINE = "Segue's own engine computes on one machine"
_NO_VECTOR = "there are no control vectors here; adapters are --lora FILE"
_ORIGIN = "here it is --cors-origin ORIGIN; methods and headers follow from what is served"
_NO_TOOLS = "there are no tools here: completions only"
_PAGE = "the page at / has no settings"

# Flag → the field of a request whose default it sets.
SAMPLING = {
    **dict.fromkeys(("-n", "--predict", "--n-predict"), "n_predict"),
    **dict.fromkeys(("--temp", "--temperature"), "temperature"),
    **dict.fromkeys(("--top-nsigma", "--top-n-sigma"), "top_n_sigma"),
    **dict.fromkeys(("--typical", "--typical-p"), "typical_p"),
    **dict.fromkeys(("-r", "--reverse-prompt"), "stop"),
    "--seed": "seed",
    "--ignore-eos": "ignore_eos",
    "--top-k": "top_k",
    "--top-p": "top_p",
    "--min-p": "min_p",
    "--xtc-probability": "xtc_probability",
    "--xtc-threshold": "xtc_threshold",
    "--repeat-last-n": "repeat_last_n",
    "--repeat-penalty": "repeat_penalty",
    "--presence-penalty": "presence_penalty",
    "--frequency-penalty": "frequency_penalty",
    "--dry-multiplier": "dry_multiplier",
    "--dry-base": "dry_base",
    "--dry-allowed-length": "dry_allowed_length",
    "--dry-penalty-last-n": "dry_penalty_last_n",
    "--dry-sequence-breaker": "dry_sequence_breakers",
    "--adaptive-target": "adaptive_target",
    "--adaptive-decay": "adaptive_decay",
    "--dynatemp-range": "dynatemp_range",
    "--dynatemp-exp": "dynatemp_exponent",
    "--mirostat": "mirostat",
    "--mirostat-lr": "mirostat_eta",
    "--mirostat-ent": "mirostat_tau",
    "--logit-bias": "logit_bias",
    "--no-cache-prompt": "cache_prompt",
}

_ON_GPUS = (
    *("-ngl", "--gpu-layers", "--n-gpu-layers", "-dev", "--device", "--list-devices"),
    *("-sm", "--split-mode", "-ts", "--tensor-split", "-mg", "--main-gpu"),
    *("-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe"),
    *("-kvo", "--kv-offload", "-nkvo", "--no-kv-offload", "--op-offload", "--no-op-offload"),
    *("-fit", "--fit", "-fitt", "--fit-target", "-fitc", "--fit-ctx", "--no-host"),
    *("-ncffn", "--n-cpu-ffn", "--moe-cache-mib"),
)
_CORES = (
    *("-C", "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "--prio", "--poll", "--numa"),
    *("-Cb", "--cpu-mask-batch", "-Crb", "--cpu-range-batch", "--cpu-strict-batch"),
    *("--prio-batch", "--poll-batch"),
)
_ROTATION = (
    *("--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale"),
    *("--yarn-orig-ctx", "--yarn-ext-factor", "--yarn-attn-factor"),
    *("--yarn-beta-slow", "--yarn-beta-fast"),
)
_MEMORY = (
    *("--mmap", "--no-mmap", "--mlock", "-dio", "--direct-io", "-ndio", "--no-direct-io"),
    *("-lm", "--load-mode", "-lzm", "--lazy-mode", "--repack", "-nr", "--no-repack"),
)
_CHAT = (
    *("-mm", "--mmproj", "-mmu", "--mmproj-url", "--mmproj-auto", "--no-mmproj"),
    *("--no-mmproj-auto", "--mmproj-offload", "--no-mmproj-offload", "-mmdev", "--mmproj-device"),
    *("--image-min-tokens", "--image-max-tokens", "--mtmd-batch-max-tokens", "--media-path"),
    *("--video-fps", "--video-timestamp-interval", "--video-ffmpeg-dir"),
    *("--jinja", "--no-jinja", "--chat-template", "--chat-template-file"),
    *("--chat-template-kwargs", "--skip-chat-parsing", "--no-skip-chat-parsing"),
    *("--prefill-assistant", "--no-prefill-assistant", "-rea", "--reasoning"),
    *("--reasoning-format", "--reasoning-effort", "--reasoning-budget"),
    *("--reasoning-budget-message", "--reasoning-preserve", "--no-reasoning-preserve"),
)
_TOOLS = (
    *("--tools", "--tools-runtime", "--mcp-servers-config", "--mcp-servers-json"),
    *("-ag", "--agent", "-no-ag", "--no-agent"),
)
_VECTORS = (
    *("--embedding", "--embeddings", "--rerank", "--reranking", "--pooling"),
    *("--embd-normalize", "--embd-gemma-default"),
)
_CACHES = (
    *("--swa-full", "-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"),
    *("-cms", "--checkpoint-min-step", "-cram", "--cache-ram", "-dt", "--defrag-thold"),
    *("--cache-idle-slots", "--no-cache-idle-slots"),
)
_ALWAYS = (
    *("--slots", "--props", "--metrics", "--cache-reuse", "--cache-prompt"),
    *("-cb", "--cont-batching", "-nocb", "--no-cont-batching"),
    *("-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"),
    *("-sps", "--slot-prompt-similarity", "--log-timestamps"),
)
# Nearly all of what drafts have begins alike.
_DRAFTS = (
    *("--spec-type", "--spec-default", "--draft-n", "--draft-max", "--draft-min"),
    *("--draft-n-min", "-lcs", "--lookup-cache-static", "-lcd", "--lookup-cache-dynamic"),
    *("--spec-draft-n-max", "--spec-draft-n-min", "--draft-p-split", "--draft-p-min"),
    *("--spec-draft-p-split", "--spec-draft-p-min", "--spec-draft-backend-sampling"),
    *("--no-spec-draft-backend-sampling", "--spec-draft-threads", "-td", "--threads-draft"),
    *("--spec-draft-threads-batch", "-tbd", "--threads-batch-draft", "--spec-draft-device"),
    *("-devd", "--device-draft", "--spec-draft-ngl", "-ngld", "--gpu-layers-draft"),
    *("--n-gpu-layers-draft", "--spec-draft-type-k", "-ctkd", "--cache-type-k-draft"),
    *("--spec-draft-type-v", "-ctvd", "--cache-type-v-draft", "--spec-draft-cpu-mask"),
    *("-Cd", "--cpu-mask-draft", "--spec-draft-cpu-range", "-Crd", "--cpu-range-draft"),
    *("--spec-draft-cpu-strict", "--cpu-strict-draft", "--spec-draft-prio", "--prio-draft"),
    *("--spec-draft-poll", "--poll-draft", "--spec-draft-cpu-mask-batch", "-Cbd"),
    *("--cpu-mask-batch-draft", "--spec-draft-cpu-strict-batch", "--cpu-strict-batch-draft"),
    *("--spec-draft-prio-batch", "--prio-batch-draft", "--spec-draft-poll-batch"),
    *("--poll-batch-draft", "--spec-draft-override-tensor", "-otd", "--override-tensor-draft"),
    *("--spec-draft-cpu-moe", "-cmoed", "--cpu-moe-draft", "--spec-draft-n-cpu-moe"),
    *("--spec-draft-ncmoe", "-ncmoed", "--n-cpu-moe-draft", "--spec-draft-sampling"),
    *("--spec-synth-len", "--spec-synth-rates"),
    *("--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-match"),
    *("--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits"),
    *(
        f"--spec-ngram-{kind}-{what}"
        for kind in ("simple", "map-k", "map-k4v")
        for what in ("size-n", "size-m", "min-hits")
    ),
)
# Models that a flag of their own fetches.
_FETCHED = (
    *(f"--fim-qwen-{which}" for which in ("1.5b-default", "3b-default", "7b-default", "7b-spec")),
    *("--fim-qwen-14b-spec", "--fim-qwen-30b-default", "--gpt-oss-20b-default"),
    *("--gpt-oss-120b-default", "--vision-gemma-4b-default", "--vision-gemma-12b-default"),
)

LLAMA_SERVER = {
    **{flag: _FIELD.format(field) for flag, field in SAMPLING.items()},
    **dict.fromkeys(("--samplers", "--sampler-seq", "--sampling-seq"), _STEPS),
    **dict.fromkeys(("-m", "--model"), words.FILE),
    **dict.fromkeys(("-hf", "-hfr", "--hf-repo"), words.HUB),
    **dict.fromkeys(("-hff", "--hf-file"), "write hf:OWNER/REPO/FILE.gguf"),
    **dict.fromkeys(("-hft", "--hf-token"), words.TOKEN),
    **dict.fromkeys(
        ("-mu", "--model-url"), "download the file, and write it: segue serve FILE.gguf"
    ),
    **dict.fromkeys(("-dr", "--docker-repo"), words.HUB),
    **dict.fromkeys(_FETCHED, words.HUB),
    **dict.fromkeys(("--models-dir", "--models-preset"), "write them: segue serve A=FILE B=FILE"),
    **dict.fromkeys(("--models-max", "--models-autoload", "--no-models-autoload"), words.IDLE),
    "--sleep-idle-seconds": "here it is --keep-alive-s N",
    "--offline": "here it is HF_HUB_OFFLINE=1 in the environment",
    **dict.fromkeys(("-cl", "--cache-list"), "here it is segue models list"),
    "-a": words.NAME,
    "--tags": "models have names alone: NAME=MODEL, or --alias NAME",
    **dict.fromkeys(("-c", "--ctx-size", "--kv-unified-per-slot"), words.CONTEXT),
    **dict.fromkeys(("-np", "--parallel"), words.SLOTS),
    **dict.fromkeys(("-b", "--batch-size", "-ub", "--ubatch-size"), words.ROWS),
    **dict.fromkeys(("-t", "-tb", "--threads-batch"), words.THREADS),
    "--threads-http": words.NO_WORKERS,
    **dict.fromkeys(("-ctk", "-ctv", "--cache-type-k", "--cache-type-v"), words.KV_TYPE),
    **dict.fromkeys(("-fa", "--flash-attn"), words.ONE_KERNEL),
    "--keep": "it is the field n_keep of a request, with --context-shift",
    **dict.fromkeys(_CACHES, _CACHE),
    **dict.fromkeys(_ALWAYS, words.ALWAYS),
    **dict.fromkeys(_ON_GPUS, words.NO_GPU),
    **dict.fromkeys(_CORES, words.CORES),
    **dict.fromkeys(_ROTATION, words.ROTATION),
    **dict.fromkeys(_MEMORY, words.MEMORY),
    **dict.fromkeys(("--override-kv", "--check-tensors"), "a file is served as it is"),
    "--rpc": _ONE_MACHINE,
    "--lora-scaled": "here it is --lora FILE@SCALE",
    "--lora-init-without-apply": "here it is --lora FILE@0; POST /lora-adapters sets scales",
    **dict.fromkeys(
        ("--control-vector", "--control-vector-scaled", "--control-vector-layer-range"),
        _NO_VECTOR,
    ),
    **dict.fromkeys(_DRAFTS, words.DRAFTS),
    **dict.fromkeys(("-md", "--model-draft", "--spec-draft-model"), _DRAFT),
    **dict.fromkeys(("-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf"), _DRAFT),
    **dict.fromkeys(("-bs", "--backend-sampling"), "there is nothing to choose: it is done so"),
    **dict.fromkeys(("--grammar", "--grammar-file", "-j", "--json-schema"), words.OF_REQUEST),
    **dict.fromkeys(("-jf", "--json-schema-file"), words.OF_REQUEST),
    "--spm-infill": "it is the field infill_order of a request",
    **dict.fromkeys(("-sp", "--special"), "it is the field skip_special_tokens of a request"),
    **dict.fromkeys(("-e", "--escape", "--no-escape"), "a prompt in a request is JSON"),
    **dict.fromkeys(_CHAT, words.NO_CHAT),
    **dict.fromkeys(_TOOLS, _NO_TOOLS),
    **dict.fromkeys(_VECTORS, words.NO_VECTORS),
    **dict.fromkeys(("-to", "--timeout"), words.TIMEOUT),
    **dict.fromkeys(("--ssl-key-file", "--ssl-cert-file"), words.NO_TLS),
    "--api-prefix": words.PREFIX,
    "--path": "there is no folder of files to serve: put a web server in front",
    "--reuse-port": "here it is --server-processes N",
    **dict.fromkeys(("--cors-origins", "--cors-methods", "--cors-headers"), _ORIGIN),
    **dict.fromkeys(("--cors-credentials", "--no-cors-credentials"), _ORIGIN),
    **dict.fromkeys(("--webui", "--no-webui", "--ui", "--no-ui", "--no-slots"), words.WITHOUT),
    **dict.fromkeys(
        (
            *("--ui-config", "--webui-config", "--ui-config-file", "--webui-config-file"),
            *("--ui-mcp-proxy", "--webui-mcp-proxy", "--no-ui-mcp-proxy", "--no-webui-mcp-proxy"),
        ),
        _PAGE,
    ),
    **dict.fromkeys(("--warmup", "--no-warmup"), "a model is warm before the server is ready"),
    **dict.fromkeys(("--perf", "--no-perf"), _NO_SPEED),
    "--log-jsonl": "here it is --log-format json",
    "--log-disable": "here it is --log-level error",
    "--log-file": "the log goes to standard error: 2> FILE",
    **dict.fromkeys(("-v", "--verbose", "--log-verbose"), words.LOUD),
    **dict.fromkeys(("-lv", "--verbosity", "--log-verbosity"), words.LOUD),
    **dict.fromkeys(
        ("--log-colors", "--log-prefix", "--no-log-prefix", "--no-log-timestamps"), _LOG
    ),
    "--log-prompts-dir": "here it is --log-prompts: they are in the log",
    "--version": "here it is segue --version",
    "--usage": "here it is --help",
    "--completion-bash": "here it is _SEGUE_COMPLETE=bash_source segue",
}
