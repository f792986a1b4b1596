"""What `vllm serve` sets up, from where each version of vLLM that is tested has it."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Of each name the newest place first: modules that are gone, or have it no longer.
_PLACES = {
    "make_arg_parser": ("common.cli_args", "launchers.cli_args"),  # 0.33, 0.32
    "cli_env_setup": ("common.startup", "serve.utils.api_utils"),
}


def of_serve(name: str) -> Any:
    places = (f"vllm.entrypoints.{place}" for place in _PLACES[name])
    return getattr(import_module(next(place for place in places if find_spec(place))), name)
