"""The tiny GGUF's weights and vocabulary as a folder in the layout of Hugging Face, in float32."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import (
    DIM,
    END,
    EPSILON,
    FFN,
    FIM,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    LAYERS,
    MERGES,
    ROPE_BASE,
    byte_alphabet,
    pieces,
)

Array = NDArray[np.float32]

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_tiny_hf(folder: Path, source: Path, fim: bool = True, context: int = 512) -> Path:
    """`source`: a tiny GGUF of architecture llama in F32, with the same tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        _name(tensor.name): _turned(tensor.name, np.array(tensor.data, np.float32))
        for tensor in gguf.GGUFReader(source).tensors
    }
    write_safetensors(folder / "model.safetensors", tensors)
    controls = [END, *(FIM.values() if fim else ())]
    end = len(pieces())
    _write(folder / "config.json", _config(end + len(controls), end, context))
    _write(folder / "tokenizer.json", tokenizer_json(controls))
    spoken = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "bos_token": END}
    _write(folder / "tokenizer_config.json", {**spoken, "model_max_length": context})
    return folder


def write_tiny_peft(folder: Path, lora: Path) -> Path:
    """The same for a LoRA adapter of the tiny GGUF, in the layout of PEFT. `lora`: a GGUF, in F32."""
    reader = gguf.GGUFReader(lora)
    tensors: dict[str, Array] = {}
    for tensor in reader.tensors:
        name, _, end = tensor.name.rpartition(".lora_")
        values = np.array(tensor.data, np.float32)
        module = _name(name).removesuffix(".weight")
        tensors[f"base_model.model.{module}.lora_{end.upper()}.weight"] = (
            _turned(name, values) if end == "b" else values
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    rank = next(len(values) for name, values in tensors.items() if "lora_A" in name)
    alpha = reader.fields[gguf.Keys.Adapter.LORA_ALPHA].contents()
    modules = sorted({name.split(".")[-3] for name in tensors})
    about = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": modules}
    _write(folder / "adapter_config.json", {**about, "bias": "none"})
    return folder


def write_safetensors(path: Path, tensors: dict[str, Array]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        span = [offset, offset + tensor.nbytes]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": span}
        offset = span[1]
    text = json.dumps(header).encode()
    data = b"".join(np.ascontiguousarray(tensor).tobytes() for tensor in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def tokenizer_json(controls: list[str]) -> dict[str, Any]:
    alphabet = byte_alphabet()

    def spell(piece: bytes) -> str:
        return "".join(alphabet[byte] for byte in piece)

    spellings = [spell(piece) for piece in pieces()]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": len(spellings) + i, "content": text, "special": True, **_PLAIN}
            for i, text in enumerate(controls)
        ],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**byte_level, "use_regex": True},
            ],
        },
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {text: index for index, text in enumerate(spellings)},
            "merges": [[spell(left), spell(right)] for left, right in MERGES],
        },
    }


_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def _config(vocab_size: int, end: int, context: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": DIM,
        "intermediate_size": FFN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "rms_norm_eps": EPSILON,
        "rope_theta": ROPE_BASE,
        "max_position_embeddings": context,
        "bos_token_id": end,
        "eos_token_id": end,
        "tie_word_embeddings": False,
        "dtype": "float32",
    }


def _name(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{_NAMES[parts[2]]}.weight"
    return f"{_NAMES[parts[0]]}.weight"


def _turned(name: str, tensor: Array) -> Array:
    """GGUF rotates neighbouring rows of queries and keys together, Hugging Face the two halves of a head."""
    heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
    if heads is None:
        return tensor
    split = tensor.reshape(heads, HEAD_DIM // 2, 2, tensor.shape[1])
    return split.swapaxes(1, 2).reshape(tensor.shape)


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
