"""Segue: a text-completions server that speaks six dialects on one real engine, and a library on the same one."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["LLM", "__version__"]

if TYPE_CHECKING:
    from segue.library.llm import LLM as LLM


def __getattr__(name: str) -> Any:
    """The library is imported when it is asked for: most who import this package need only a part."""
    if name == "LLM":
        from segue.library.llm import LLM

        return LLM
    raise AttributeError(f"module 'segue' has no attribute {name!r}")
