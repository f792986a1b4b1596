"""Flags of the other servers: one that is used here by habit is answered with what it is called here."""

import click

_FILE = "write the model itself: segue serve FILE.gguf"
_HUB = "write the repository itself: segue serve OWNER/REPO:QUANT"
_CONTEXT = "here it is --context-length N"
_SLOTS = "here it is --num-slots N"
_ROWS = "here it is --chunk-rows N"
_THREADS = "here it is --threads N"
_NAME = "write NAME=MODEL, or --alias NAME"
_SAMPLING = "here it is --default NAME=VALUE, such as --default temperature=0.7"
_ALWAYS = "it is always on"
_NO_GPU = "Segue's own engine computes on the CPU; --engine vllm has GPUs"
_OF_VLLM = "here it is an argument of --engine vllm: --vllm-option NAME=VALUE"
_AS_IT_IS = "a file is served as it is quantised"
_NO_CHAT = "there is no chat here, and there are no images: completions only"

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
    **dict.fromkeys(
        ("-ctk", "-ctv", "--cache-type-k", "--cache-type-v"), "KV is kept in 16 bits here"
    ),
    "--lora-scaled": "here it is --lora FILE@SCALE",
    **dict.fromkeys(("-md", "--model-draft"), "here it is --draft FILE"),
    **dict.fromkeys(("-ngl", "--gpu-layers", "--n-gpu-layers", "--device-layers"), _NO_GPU),
    **dict.fromkeys(("--mmproj", "--jinja", "--chat-template"), _NO_CHAT),
    "-l": "here it is --host HOST --port PORT",
    "-w": "connections need no workers; --threads N are those of the model",
    "--url-prefix": "each dialect has its own prefix",
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


class Understanding(click.Command):
    """A command that tells what a flag of another server is called here."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [each.partition("=")[0] for each in args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            for flag in given:
                if flag in FOREIGN and _is_about(flag, error.option_name):
                    raise click.UsageError(
                        f"No such option {flag!r}: {FOREIGN[flag]}.", ctx
                    ) from None
            raise


def _is_about(flag: str, named: str) -> bool:
    """click reads -ngl as -n, -g and -l, and names the first of them that it does not know."""
    return flag == named or (not flag.startswith("--") and named[1:] in flag)
