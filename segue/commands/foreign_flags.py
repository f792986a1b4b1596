"""Flags and commands of the other systems: one that is used here by habit is answered with what it is called here."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar

import click

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
_OF_VLLM = "here it is an argument of --engine vllm: --vllm-option NAME=VALUE"
_AS_IT_IS = "a file is served as it is quantised"
_NO_CHAT = "there is no chat here, and there are no images: completions only"
_NO_VECTORS = "there are no embeddings and no ranking here: completions only"
_NO_TLS = "there is no TLS here: put a proxy in front"
_DRAFTS = (
    "drafts are made as far as they pay, by a model's own MTP layer too; --draft FILE names a draft "
    "model, --draft none leaves that layer out"
)
_PREFIX = "each dialect has its own prefix"

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
    **dict.fromkeys(("--samplers", "--seed", "-n", "--n-predict"), _SAMPLING),
    "--override-generation-config": _SAMPLING,
    **dict.fromkeys(("-to", "--timeout"), "here it is --write-timeout N, or --request-timeout N"),
    "--spm-infill": "it is the field infill_order of a request",
    **dict.fromkeys(("--slots", "--props", "--metrics", "--cache-reuse"), _ALWAYS),
    **dict.fromkeys(("--enable-prefix-caching", "--enable-chunked-prefill"), _ALWAYS),
    **dict.fromkeys(("--prefix-cache-n", "-cb", "--cont-batching"), _ALWAYS),
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
    **dict.fromkeys(("--mmproj", "--jinja", "--chat-template", "--tool-call-parser"), _NO_CHAT),
    **dict.fromkeys(("--enable-auto-tool-choice", "--reasoning-parser"), _NO_CHAT),
    **dict.fromkeys(("--embedding", "--embeddings", "--rerank", "--reranking"), _NO_VECTORS),
    **dict.fromkeys(("--ssl-key-file", "--ssl-cert-file"), _NO_TLS),
    **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile"), _NO_TLS),
    **dict.fromkeys(("-fa", "--flash-attn"), "there is nothing to choose: one kernel does it"),
    "-l": "here it is --host HOST --port PORT",
    "-w": "connections need no workers; --threads N are those of the model",
    **dict.fromkeys(("--url-prefix", "--api-prefix", "--root-path"), _PREFIX),
    "-p": "here it is --port N",
    "-f": "write the file with its repository: segue serve hf:OWNER/REPO/FILE.gguf",
    "--serve-ip": "here it is --host ADDRESS",
    **dict.fromkeys(("--isq", "--quantization"), _AS_IT_IS),
    "--paged-attn": _ALWAYS,
    **dict.fromkeys(
        ("--gpu-memory-utilization", "--kv-cache-memory-bytes"), "here it is --kv-memory-mib N"
    ),
    "--api-server-count": "here it is --server-processes N",
    "--allowed-origins": "here it is --cors-origin ORIGIN",
    **dict.fromkeys(("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp"), _OF_VLLM),
    **dict.fromkeys(("--data-parallel-size", "-dp", "--dtype", "--trust-remote-code"), _OF_VLLM),
    **dict.fromkeys(("--enforce-eager", "--load-format"), _OF_VLLM),
    **dict.fromkeys(("-v", "--verbose"), "here it is --log-level debug"),
}


_PROMPT = 'write the prompt itself: segue complete "PROMPT"'
_SERVER = "here it is --url http://HOST:PORT"

# The same for `segue complete`: flags of llama-cli, and of `vllm complete`.
FOREIGN_TO_COMPLETE = {
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
    **dict.fromkeys(("-ngl", "--gpu-layers", "--n-gpu-layers"), _NO_GPU),
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


class Understanding(click.Command):
    """A command that tells what a flag of another server is called here."""

    foreign: ClassVar[Mapping[str, str]] = FOREIGN

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [each.partition("=")[0] for each in args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            for flag in given:
                if flag in self.foreign and _is_about(flag, error.option_name):
                    raise click.UsageError(
                        f"No such option {flag!r}: {self.foreign[flag]}.", ctx
                    ) from None
            if advice := self._meant(error.option_name):
                raise click.UsageError(
                    f"No such option {error.option_name!r}: {advice}.", ctx
                ) from None
            raise

    def _meant(self, mistyped: str) -> str:
        """What to use instead of a flag that is nearer to another server's than to ours, or nothing."""
        own = [name for each in self.params for name in each.opts]
        near = get_close_matches(mistyped, [*own, *self.foreign], 1)
        return self.foreign.get(near[0], "") if near and mistyped.startswith("--") else ""


class UnderstandingComplete(Understanding):
    foreign = FOREIGN_TO_COMPLETE


def _is_about(flag: str, named: str) -> bool:
    """click reads -ngl as -n, -g and -l, and names the first of them that it does not know."""
    return flag == named or (not flag.startswith("--") and named[1:] in flag)
