"""vLLM configured for a folder, and not started."""

from types import SimpleNamespace

import pytest


def do_not_start(patch: pytest.MonkeyPatch, folder: str) -> None:
    """A launch of this folder returns a client of vLLM that can only tell its tokenizer."""
    from vllm.tokenizers import get_tokenizer
    from vllm.v1.engine.async_llm import AsyncLLM

    client = SimpleNamespace(
        get_tokenizer=lambda: get_tokenizer(folder),
        engine_core=SimpleNamespace(resources=SimpleNamespace(engine_manager=None)),
    )
    patch.setattr(AsyncLLM, "from_vllm_config", lambda *args, **more: client)
