"""LoRA adapters of vLLM's engine, under the name vLLM's own server has for them.

`--vllm-option 'lora_modules={"poet": "./folder"}'` serves the adapter in that folder as the model `poet`.
"""

import json
from collections.abc import Sequence

from segue.errors import Incompatible

_NAME = "lora_modules"
Modules = tuple[tuple[str, str], ...]  # names and folders


def split_modules(options: Sequence[str]) -> tuple[tuple[str, ...], Modules]:
    """The other options, and the adapters. Raises Incompatible."""
    others: list[str] = []
    modules: dict[str, str] = {}
    for option in options:
        name, _, text = option.partition("=")
        if name.strip().replace("-", "_") == _NAME:
            modules |= _read(option, text)
        else:
            others.append(option)
    return tuple(others), tuple(modules.items())


def _read(option: str, text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(
        name and isinstance(folder, str) for name, folder in found.items()
    ):
        raise Incompatible(
            f'--vllm-option {option!r}: write {_NAME}={{"NAME": "FOLDER"}}, an adapter each'
        )
    return found
