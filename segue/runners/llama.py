"""The llama.cpp runner."""

from segue.runners.llama_vocab import LlamaVocab, model_info

__all__ = ["LlamaVocab", "model_info"]
