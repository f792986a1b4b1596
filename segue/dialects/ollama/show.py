"""What `/api/show` tells of one model: its file's metadata, and what would stand in a Modelfile of it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from segue.dialects.fields.defaults import Defaults
from segue.dialects.ollama.fields import OPTIONS
from segue.types import ModelInfo

_PLAIN = "{{ .Prompt }}"
# Editors offer to fill gaps if a template has this word in it.
_GAPS = "With .Suffix, what stands before and after the gap is laid out by the model's own tokens."
_HIDDEN = ("general.name",)


def model_info(info: ModelInfo, lists: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata, with the context that is served: clients send as many tokens as this says.

    `lists`: what stands for the arrays, which are null without them.
    """
    architecture = info.architecture
    known = {
        **info.origin.metadata,
        **lists,
        "general.architecture": architecture,
        "general.parameter_count": info.num_params,
        f"{architecture}.context_length": info.context_length,
        f"{architecture}.vocab_size": info.vocab_size,
    }
    return {key: known[key] for key in sorted(known) if key not in _HIDDEN}


def template(info: ModelInfo | None) -> str:
    """The file's own, in Jinja; without one the prompt is taken as it is."""
    chat = info.chat_template if info else None
    if not (info and info.has_fim):
        return chat or _PLAIN
    return f"{{# {_GAPS} #}}{chat}" if chat else f"{{{{- /* {_GAPS} */ -}}}}{_PLAIN}"


def template_source(info: ModelInfo | None) -> str:
    """In the words of Ollama: the template is the one in the file, or there is none."""
    return "gguf_chat_template" if info and info.chat_template else "none"


def parameters(info: ModelInfo | None, defaults: Defaults) -> list[tuple[str, str]]:
    """What requests get that say nothing, where that is not Ollama's own default."""
    context = [("num_ctx", f"{info.context_length}")] if info else []
    return [*context, *_set(defaults)]


def _set(defaults: Defaults) -> Iterator[tuple[str, str]]:
    for row in OPTIONS:
        value = defaults.get(row.target)
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None:
                yield row.name.removeprefix("options."), json.dumps(each, ensure_ascii=False)


def columns(lines: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<30} {value}" for name, value in lines)


def licence(info: ModelInfo | None) -> str:
    found = info.origin.metadata.get("general.license") if info else None
    return found if isinstance(found, str) else ""


def modelfile(name: str, template: str, lines: list[tuple[str, str]], licence: str) -> str:
    parts = [f"FROM {name}", f'TEMPLATE """{template}"""']
    parts += [f"PARAMETER {option} {value}" for option, value in lines]
    if licence:
        parts.append(f'LICENSE """{licence}"""')
    return "\n".join(parts) + "\n"
