"""Flags and commands of the other systems: one that is used here by habit is answered with what it is called here."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar

import click

from segue.commands.help_sections import Sectioned

_FILE = "write the model itself: segue serve FILE.gguf"
_HUB = "write the repository itself: segue serve OWNER/REPO:QUANT"
_CONTEXT = "here it is --context-length N"
_SLOTS = "here it is --num-slots N"
_ROWS = "here it is --chunk-rows N"
_THREADS = "here it is --threads N"
_KV_TYPE = "here it is --kv-type f16, or q8_0, for keys and values"
_NAME = "write NAME=MODEL, or --alias NAME"
_SAMPLING = "here it is --default NAME=VALUE, such as --default temperature=0.7"
_ALWAYS = "it is always on"
_NO_GPU = "Segue's own engine computes on the CPU; --engine vllm has GPUs"
_ROTATION = "what the model's file says of its rotation holds"
_CORES = "start it under taskset, numactl or nice; --threads N follows the cores that it may use"
_MEMORY = "there is nothing to choose: the runner knows how its weights lie in memory"
_OF_REQUEST = "it is a field of a request"
_ONE_COMPILER = "there is nothing to choose: one compiler has all kinds of constraints"
_TOKEN = "the token is read from HF_TOKEN"
_WITHOUT = "there is nothing to turn off: a client that does not ask for it does not notice it"
_AS_IT_IS = "a file is served as it is quantised"
_NO_CHAT = "there is no chat here, and there are no images: completions only"
_NO_VECTORS = "there are no embeddings and no ranking here: completions only"
_NO_WORKERS = "connections need no workers; --threads N are those of the model"
_NO_TLS = "there is no TLS here: put a proxy in front"
_DRAFTS = (
    "drafts are made as far as they pay, by a model's own MTP layer too; --draft FILE names a draft "
    "model, --draft none leaves that layer out"
)
_PREFIX = "each dialect has its own prefix"

_ENGINE_ARGUMENTS = (
    *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--dtype"),
    *("--trust-remote-code", "--enforce-eager", "--load-format", "--tokenizer", "--revision"),
    *("--tokenizer-mode", "--hf-overrides", "--block-size", "--swap-space", "--cpu-offload-gb"),
    *("--max-loras", "--max-lora-rank", "--compilation-config", "--distributed-executor-backend"),
    *("--enable-expert-parallel", "--attention-backend"),
)
_SHORT_ENGINE_ARGUMENTS = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-ep": "--enable-expert-parallel",
}


def _of_vllm(flag: str) -> str:
    name = flag[2:].replace("-", "_")
    return f"it is for GPUs, with --engine vllm: --vllm-option {name}=VALUE"


# Flag there → what would be right here. docs/from/ says the same, system by system.
FOREIGN = {
    **dict.fromkeys(("-m", "--model"), _FILE),
    **dict.fromkeys(("-hf", "-hfr", "--hf-repo"), _HUB),
    **dict.fromkeys(("-c", "--ctx-size", "--max-model-len", "--max-seq-len"), _CONTEXT),
    **dict.fromkeys(("-np", "--parallel", "--max-num-seqs", "--max-seqs", "-s"), _SLOTS),
    **dict.fromkeys(("-b", "--batch-size", "-ub", "--ubatch-size"), _ROWS),
    "--max-num-batched-tokens": _ROWS,
    **dict.fromkeys(("-t", "-tb", "--threads-batch"), _THREADS),
    **dict.fromkeys(("-a", "--served-model-name"), _NAME),
    **dict.fromkeys(("--temp", "--top-k", "--top-p", "--min-p", "--repeat-penalty"), _SAMPLING),
    **dict.fromkeys(("--samplers", "--seed", "-n", "--n-predict", "--repeat-last-n"), _SAMPLING),
    **dict.fromkeys(("--presence-penalty", "--frequency-penalty", "--mirostat"), _SAMPLING),
    "--override-generation-config": _SAMPLING,
    **dict.fromkeys(("-to", "--timeout"), "here it is --write-timeout N, or --request-timeout N"),
    "--spm-infill": "it is the field infill_order of a request",
    **dict.fromkeys(("--slots", "--props", "--metrics", "--cache-reuse"), _ALWAYS),
    **dict.fromkeys(("--enable-prefix-caching", "--enable-chunked-prefill"), _ALWAYS),
    **dict.fromkeys(("--prefix-cache-n", "-cb", "--cont-batching", "-kvu"), _ALWAYS),
    **dict.fromkeys(("--no-enable-prefix-caching", "--no-cont-batching", "-nocb"), _ALWAYS),
    **dict.fromkeys(("-sps", "--slot-prompt-similarity", "--cache-prompt"), _ALWAYS),
    **dict.fromkeys(("-ctk", "-ctv", "--cache-type-k", "--cache-type-v"), _KV_TYPE),
    **dict.fromkeys(("--kv-cache-dtype", "--pa-cache-type"), _KV_TYPE),
    **dict.fromkeys(("--server", "--v2"), "segue serve needs none: it is a server"),
    "--keep": "it is the field n_keep of a request, with --context-shift",
    "--lora-scaled": "here it is --lora FILE@SCALE",
    **dict.fromkeys(("--enable-lora", "--lora-modules"), "here it is --lora NAME=FILE.gguf"),
    "--download-dir": "here it is --cache-dir PATH; models of Hugging Face stay in HF_HOME",
    "--log-file": "the log goes to standard error: 2> FILE",
    "--log-disable": "here it is --log-level error",
    "--disable-log-requests": "here it is --log-level warning",
    "--uvicorn-log-level": "here it is --log-level LEVEL",
    **dict.fromkeys(("-md", "--model-draft"), "here it is --draft FILE"),
    **dict.fromkeys(("--spec-type", "--draft-max", "--draft-min", "--spec-draft-n-max"), _DRAFTS),
    "--speculative-config": f"{_DRAFTS}; of --engine vllm it is --vllm-option speculative_config=…",
    **dict.fromkeys(("-ngl", "--gpu-layers", "--n-gpu-layers", "--device-layers"), _NO_GPU),
    **dict.fromkeys(("-dev", "--device", "-sm", "--split-mode", "-ts", "--tensor-split"), _NO_GPU),
    **dict.fromkeys(("-mg", "--main-gpu", "-ot", "--override-tensor", "--gpu"), _NO_GPU),
    **dict.fromkeys(("-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe", "-nkvo"), _NO_GPU),
    **dict.fromkeys(("--mmproj", "--jinja", "--chat-template", "--tool-call-parser"), _NO_CHAT),
    **dict.fromkeys(("--enable-auto-tool-choice", "--reasoning-parser"), _NO_CHAT),
    **dict.fromkeys(("--no-jinja", "--chat-template-file", "--reasoning-format"), _NO_CHAT),
    **dict.fromkeys(("--embedding", "--embeddings", "--rerank", "--reranking"), _NO_VECTORS),
    "--pooling": _NO_VECTORS,
    **dict.fromkeys(("--ssl-key-file", "--ssl-cert-file"), _NO_TLS),
    **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile"), _NO_TLS),
    **dict.fromkeys(("-fa", "--flash-attn"), "there is nothing to choose: one kernel does it"),
    "-l": "here it is --host HOST --port PORT",
    **dict.fromkeys(("-w", "--threads-http"), _NO_WORKERS),
    **dict.fromkeys(("--url-prefix", "--api-prefix", "--root-path"), _PREFIX),
    "-p": "here it is --port N",
    "-f": "write the file with its repository: segue serve hf:OWNER/REPO/FILE.gguf",
    "--serve-ip": "here it is --host ADDRESS",
    **dict.fromkeys(("--isq", "--quantization"), _AS_IT_IS),
    "--paged-attn": _ALWAYS,
    **dict.fromkeys(
        ("--gpu-memory-utilization", "--kv-cache-memory-bytes"), "here it is --kv-memory-mib N"
    ),
    **dict.fromkeys(("--api-server-count", "--workers"), "here it is --server-processes N"),
    "--allowed-origins": "here it is --cors-origin ORIGIN",
    **{flag: _of_vllm(flag) for flag in _ENGINE_ARGUMENTS},
    **{short: _of_vllm(flag) for short, flag in _SHORT_ENGINE_ARGUMENTS.items()},
    **dict.fromkeys(("-v", "--verbose", "-lv", "--log-verbosity"), "here it is --log-level debug"),
    **dict.fromkeys(("--enable-log-requests", "--log-timestamps"), _ALWAYS),
    **dict.fromkeys(("--mmap", "--no-mmap", "--mlock", "--direct-io", "-dio"), _MEMORY),
    **dict.fromkeys(("--numa", "--prio", "--poll", "-C", "--cpu-mask", "--cpu-range"), _CORES),
    **dict.fromkeys(("--rope-scaling", "--rope-scale", "--rope-freq-base"), _ROTATION),
    **dict.fromkeys(("--rope-freq-scale", "--yarn-orig-ctx"), _ROTATION),
    **dict.fromkeys(("-hff", "--hf-file"), "write hf:OWNER/REPO/FILE.gguf"),
    **dict.fromkeys(("-hft", "--hf-token", "--token-source"), _TOKEN),
    **dict.fromkeys(("-mu", "--model-url"), "download the file, and write it: segue serve FILE"),
    **dict.fromkeys(("--models-dir", "--models-preset"), "write them: segue serve A=FILE B=FILE"),
    "--sleep-idle-seconds": "here it is --keep-alive-s N",
    **dict.fromkeys(("--webui", "--no-webui", "--no-slots", "--nobrowser"), _WITHOUT),
    **dict.fromkeys(("--warmup", "--no-warmup"), "a model is warm before the server is ready"),
    **dict.fromkeys(("--grammar", "--grammar-file", "-j", "--json-schema"), _OF_REQUEST),
    "--ignore-eos": _OF_REQUEST,
    **dict.fromkeys(("--guided-decoding-backend", "--structured-outputs-config"), _ONE_COMPILER),
}


_PROMPT = 'write the prompt itself: segue complete "PROMPT"'
_SERVER = "here it is --url http://HOST:PORT"
_ONE_PROMPT = "one prompt is completed; -n N gives several answers to it"
_ONCE = "a prompt is completed as it is, once: there is no chat"
_FEW_SETTINGS = "it is a field of a request: a server has it, and LLM().complete in Python"
_HELD_BY_BOTH = {_ROWS, _KV_TYPE, _NO_GPU, _MEMORY, _CORES, _ROTATION, FOREIGN["-fa"]}

# The same for `segue complete`: flags of llama-cli, and of `vllm complete`.
FOREIGN_TO_COMPLETE = {
    **{flag: words for flag, words in FOREIGN.items() if words in _HELD_BY_BOTH},
    **dict.fromkeys(("--repeat-penalty", "--presence-penalty", "--samplers"), _FEW_SETTINGS),
    **dict.fromkeys(("--frequency-penalty", "--repeat-last-n", "--mirostat"), _FEW_SETTINGS),
    "--ignore-eos": _FEW_SETTINGS,
    "-m": "here it is --model FILE.gguf",
    **dict.fromkeys(("-hf", "-hfr", "--hf-repo"), "here it is --model OWNER/REPO:QUANT"),
    "--model-name": "here it is --model NAME",
    **dict.fromkeys(("-p", "--prompt", "-q", "--quick"), _PROMPT),
    **dict.fromkeys(("-f", "--file"), "the prompt is read from standard input: < FILE"),
    **dict.fromkeys(("--n-predict", "--predict"), "here it is --max-tokens N"),
    "--temp": "here it is --temperature N",
    "-s": "here it is --seed N",
    **dict.fromkeys(("-c", "--ctx-size", "--max-model-len"), _CONTEXT),
    "-t": _THREADS,
    "--grammar-file": "here it is --grammar @FILE",
    **dict.fromkeys(("-j", "-jf", "--json-schema-file"), "here it is --json-schema @FILE"),
    **dict.fromkeys(("--host", "--port"), _SERVER),
    "--api-key": "the key is read from SEGUE_API_KEY",
    **dict.fromkeys(("-np", "--parallel", "-ns", "--sequences"), _ONE_PROMPT),
    **dict.fromkeys(("-cnv", "--conversation", "-no-cnv", "--no-conversation"), _ONCE),
    **dict.fromkeys(("-st", "--single-turn", "-i", "--interactive", "-sys"), _ONCE),
    "--no-display-prompt": "the prompt is printed with --echo only",
}

# Command there → what would be right here. They are Ollama's, but for the last.
FOREIGN_COMMANDS = {
    "run": 'here it is segue complete "PROMPT" --model MODEL',
    "pull": "here it is segue models pull MODEL",
    **dict.fromkeys(("list", "ls"), "here it is segue models list"),
    "show": "here it is segue models show MODEL",
    "rm": "here it is segue models rm MODEL",
    "ps": "a server tells it at /api/ps",
    "stop": "a server unloads models by --keep-alive-s N",
    "create": "a GGUF file carries its template; segue serve NAME=FILE.gguf names it",
    "chat": _NO_CHAT,
}


def advice(command: str, known: Iterable[str]) -> str:
    """What to use instead of a command that there is not, or nothing."""
    if command in FOREIGN_COMMANDS:
        return f"{FOREIGN_COMMANDS[command]}."
    if command.endswith(".gguf"):
        return f"here it is segue serve {command}."
    near = get_close_matches(command, known, 1)
    return f"did you mean {near[0]}?" if near else ""


class Understanding(Sectioned):
    """A command that tells what flags of another server are called here, all of them at once."""

    foreign: ClassVar[Mapping[str, str]] = FOREIGN

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except (click.NoSuchOption, click.BadParameter):  # -ngl is read as -n with the value gl
            answers = self._answers(given, self.get_params(ctx))
            if len(answers) < 2 and not {*self.foreign.values()} & {*answers.values()}:
                raise  # click tells which of ours are near
            raise click.UsageError(_told(answers), ctx) from None

    def _answers(self, args: list[str], params: list[click.Parameter]) -> dict[str, str]:
        """Each flag that there is not, and what to use instead."""
        own = {name: each for each in params for name in (*each.opts, *each.secondary_opts)}
        answers = {}
        rest = iter(args)
        for each in rest:
            flag, has_value, _ = each.partition("=")
            if each == "--":
                break
            if flag in own:
                if not has_value and not getattr(own[flag], "is_flag", True):
                    next(rest, None)  # its value, which may begin with a dash
            elif name := next((name for name in self.foreign if _is(flag, name)), None):
                answers[name] = self.foreign[name]
            elif _FLAG.match(flag) and flag[:2] not in own:
                answers[flag] = self._meant(flag, list(own))
        return answers

    def _meant(self, mistyped: str, own: list[str]) -> str:
        """What may be meant by a flag that nobody has: one of ours, or else another server's."""
        if near := get_close_matches(mistyped, own, 1, cutoff=0.7):
            return f"it is near {near[0]}"
        near = get_close_matches(mistyped, self.foreign, 1, cutoff=0.7)
        is_long = mistyped.startswith("--")
        return self.foreign[near[0]] if near and is_long else "it is not known here"


class UnderstandingComplete(Understanding):
    foreign = FOREIGN_TO_COMPLETE

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not error.message.startswith("Got unexpected extra argument"):
                raise
            advice = 'write the prompt in quotes, segue complete "Once upon a time"'
            raise click.UsageError(f"{error.message}: {advice}.", ctx) from None


_FLAG = re.compile(r"--?[A-Za-z]")  # not -1 or -, which are values


def _is(flag: str, name: str) -> bool:
    """Whether the flag is called so; one letter may have its number beside it: -c4096."""
    return flag == name or (
        len(name) == 2 and flag.startswith(name) and flag[2:].isdecimal() and flag.isascii()
    )


def _told(answers: Mapping[str, str]) -> str:
    if len(answers) == 1:
        [(flag, words)] = answers.items()
        return f"No such option {flag!r}: {words}."
    rows = [f"  {flag}: {words}" for flag, words in answers.items()]
    return "\n".join(["No such options:", *rows])
