"""Flags and commands of the other systems: one that is used here by habit is answered with what it is called here."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar

import click

from segue.commands.foreign import words
from segue.commands.foreign.llama_server import LLAMA_SERVER
from segue.commands.foreign.mistralrs_server import MISTRALRS_SERVER
from segue.commands.foreign.spellings import in_our_words
from segue.commands.foreign.vllm_server import VLLM_SERVER
from segue.commands.help_sections import Sectioned

# Flag there → what would be right here. docs/from/ says the same, system by system.
FOREIGN = {
    **LLAMA_SERVER,
    # llamafile's
    "-s": "here it is --num-slots N; llama.cpp's -s is --default seed=N",
    "-l": "here it is --host HOST --port PORT; llama.cpp's -l is --default logit_bias=VALUE",
    "--listen": "here it is --host HOST --port PORT",
    **dict.fromkeys(("-w", "-k", "--keepalive"), words.NO_WORKERS),
    **dict.fromkeys(("--server", "--v2"), "segue serve needs none: it is a server"),
    "--nobrowser": words.WITHOUT,
    "--gpu": words.NO_GPU,
    **dict.fromkeys(("--token-rate", "--token-burst"), "here it is --requests-per-minute N"),
    **MISTRALRS_SERVER,
    **VLLM_SERVER,
}


_PROMPT = 'write the prompt itself: segue complete "PROMPT"'
_SERVER = "here it is --url http://HOST:PORT"
_ONE_PROMPT = "one prompt is completed; -n N gives several answers to it"
_ONCE = "a prompt is completed as it is, once: there is no chat"
_FEW_SETTINGS = "it is a field of a request: a server has it, and LLM().complete in Python"
_HELD_BY_BOTH = {
    *(words.ROWS, words.KV_TYPE, words.NO_GPU, words.MEMORY, words.CORES, words.ROTATION),
    words.ONE_KERNEL,
}

# The same for `segue complete`: flags of llama-cli, and of `vllm complete`.
FOREIGN_TO_COMPLETE = {
    **{flag: told for flag, told in FOREIGN.items() if told in _HELD_BY_BOTH},
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
    **dict.fromkeys(("-c", "--ctx-size", "--max-model-len"), words.CONTEXT),
    "-t": words.THREADS,
    "--grammar-file": "here it is --grammar @FILE",
    **dict.fromkeys(("-j", "-jf", "--json-schema-file"), "here it is --json-schema @FILE"),
    **dict.fromkeys(("--host", "--port"), _SERVER),
    "--api-key": "the key is read from SEGUE_API_KEY",
    **dict.fromkeys(("-np", "--parallel", "-ns", "--sequences"), _ONE_PROMPT),
    **dict.fromkeys(("-cnv", "--conversation", "-no-cnv", "--no-conversation"), _ONCE),
    **dict.fromkeys(("-st", "--single-turn", "-i", "--interactive", "-sys"), _ONCE),
    "--no-display-prompt": "the prompt is printed with --echo only",
}

# Command there → what would be right here. They are Ollama's, but for the last two.
FOREIGN_COMMANDS = {
    "run": 'here it is segue complete "PROMPT" --model MODEL',
    "pull": "here it is segue models pull MODEL",
    **dict.fromkeys(("list", "ls"), "here it is segue models list"),
    "show": "here it is segue models show MODEL",
    "rm": "here it is segue models rm MODEL",
    "ps": "a server tells it at /api/ps",
    "stop": "a server unloads models by --keep-alive-s N",
    "create": "a GGUF file carries its template; segue serve NAME=FILE.gguf names it",
    "help": "here it is segue --help",
    "chat": words.NO_CHAT,
    "version": "here it is segue --version",
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
        args = list(in_our_words(args))
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except (click.NoSuchOption, click.BadParameter):  # -ngl is read as -n with the value gl
            answers = self._answers(given, self.get_params(ctx))
            theirs = tuple(self.foreign.values())
            if len(answers) < 2 and not any(each.endswith(theirs) for each in answers.values()):
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
                answers[flag if flag.startswith("--no-") else name] = self.foreign[name]
            elif _FLAG.match(flag) and flag[:2] not in own:
                answers[flag] = self._meant(flag, list(own))
        return answers

    def _meant(self, mistyped: str, own: list[str]) -> str:
        """What may be meant by a flag that nobody has: one of ours, or else another server's."""
        if near := get_close_matches(mistyped, own, 1, cutoff=0.7):
            return f"it is near {near[0]}"
        near = get_close_matches(mistyped, self.foreign, 1, cutoff=0.7)
        is_long = mistyped.startswith("--")
        told = f"if {near[0]} is meant: {self.foreign[near[0]]}" if near else ""
        return told if is_long and told else words.UNKNOWN


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
    """Whether the flag is called so, or turns it off; one letter may have its number beside it: -c4096."""
    return flag in (name, f"--no-{name[2:]}") or (
        len(name) == 2 and flag.startswith(name) and flag[2:].isdecimal() and flag.isascii()
    )


def _told(answers: Mapping[str, str]) -> str:
    if len(answers) == 1:
        [(flag, meant)] = answers.items()
        return f"No such option {flag!r}: {meant}."
    rows = [f"  {flag}: {meant}" for flag, meant in answers.items()]
    return "\n".join(["No such options:", *rows])
