"""Every dialect the server speaks. They are imported when all are asked for: a command may need one alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segue.dialects.base import Dialect

    DIALECTS: tuple[Dialect, ...]


def __getattr__(name: str) -> Any:
    if name != "DIALECTS":
        raise AttributeError(f"module 'segue.dialects' has no attribute {name!r}")
    from segue.dialects.llamacpp import LLAMACPP
    from segue.dialects.llamafile import LLAMAFILE
    from segue.dialects.llamastack import LLAMASTACK
    from segue.dialects.mistralrs import MISTRALRS
    from segue.dialects.ollama import OLLAMA
    from segue.dialects.openai import OPENAI
    from segue.dialects.vllm import VLLM

    every = (OPENAI, LLAMACPP, LLAMAFILE, MISTRALRS, VLLM, LLAMASTACK, OLLAMA)
    return globals().setdefault(name, every)
