"""Files that are around: what they say, their tensors, and what llama.cpp made of them. The facts are in real/.

A file is written with all its tensors, but for their contents and the tokens: a hole in the file system. Lists of
facts are short: `3x(2x8 1)` stands for `8 8 1 8 8 1 8 8 1`.
"""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from segue.models.gguf import GgufHeader, header
from segue.models.gguf.types import TENSOR_TYPES
from segue.runners.cpu.architectures.hparams import Hparams, hparams_of
from segue.runners.cpu.architectures.tensors import Shapes, extras, is_vector, shapes
from tests.support.models.quick_writer import Writer

FACTS = Path(__file__).parent / "real"
ANY = "any"  # a file's tensors may be of any type, if only their number was seen
TYPES = {kind.name.lower(): kind for kind in gguf.GGMLQuantizationType}
TYPES |= dict.fromkeys((ANY, "other"), gguf.GGMLQuantizationType.Q8_0)
BLOCKS = {kind.name.lower(): kind.block for kind in TENSOR_TYPES.values()} | {ANY: 32, "other": 32}
KEYS = ("attn_k.weight", "attn_k_norm.weight", "attn_v.weight")
_VALUE_TYPES = {
    bool: gguf.GGUFValueType.BOOL,
    int: gguf.GGUFValueType.UINT32,
    float: gguf.GGUFValueType.FLOAT32,
    str: gguf.GGUFValueType.STRING,
}

Plain = int | float | bool | str
Value = Plain | list[Plain]


@dataclass(frozen=True)
class RealFile:
    name: str
    architecture: str
    says: Mapping[str, Value]  # under keys of the architecture
    types: Mapping[str, int]  # how many tensors are of which; nothing if that was not seen
    printed: Mapping[str, str]  # what llama.cpp made of it
    also: Mapping[
        str, tuple[bool, ...]
    ]  # tensors that such files may have or lack: in which layers; none: of the whole
    refused: str  # why our kernels do not compute it; nothing if they do


def real_files(folder: str) -> list[RealFile]:
    """`files`: those of which logs were seen; `sizes`: others."""
    tables = [
        tomllib.loads(path.read_text("utf-8")) for path in sorted((FACTS / folder).glob("*.toml"))
    ]
    return [_file(name, facts) for table in tables for name, facts in table.items()]


def _file(name: str, facts: Mapping[str, str]) -> RealFile:
    says = {key: _value(text) for key, text in _pairs(facts["says"])}
    layers = says["block_count"]
    assert isinstance(layers, int)
    return RealFile(
        name=name,
        architecture=facts["architecture"],
        says=says,
        types={kind.lower(): int(count) for kind, count in _pairs(facts.get("tensors", ""))},
        printed={word: _spelled_out(text) for word, text in _pairs(facts["printed"])},
        also={key: _layers(text, layers) for key, text in _pairs(facts.get("also", ""))},
        refused=facts.get("refused", ""),
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in filter(None, map(str.strip, text.replace("\n", " ").split(","))):
        key, _, value = pair.partition("=")
        yield key, value


def _layers(text: str, layers: int) -> tuple[bool, ...]:
    """`text`: "all", a list of layers with and without, or nothing for a tensor of the whole model."""
    if text in ("", "all"):
        return (True,) * layers if text else ()
    told = tuple(map(bool, _list(text)))
    assert len(told) == layers, text
    return told


def _value(text: str) -> Value:
    return _list(text) if _is_list(text) else _plain(text)


def _spelled_out(text: str) -> str:
    values = [str(each) for each in _list(text)] if _is_list(text) else [text]
    return values[0] if len({*values}) == 1 else " ".join(values)


def _is_list(text: str) -> bool:
    return " " in text or re.match(r"\d+x", text) is not None


def _list(text: str) -> list[Plain]:
    for repeated in (r"(\d+)x\(([^)]*)\)", r"(\d+)x(\S+)"):
        text = re.sub(repeated, lambda found: f"{found[2]} " * int(found[1]), text)
    return [_plain(each) for each in text.split()]


def _plain(text: str) -> Plain:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# --- as a GGUF ---


def write(path: Path, real: RealFile) -> GgufHeader:
    """The file's header, as our reader gives it. Its tensors are those that follow from what it says, and `also`."""
    width = real.says["embedding_length"]
    assert isinstance(width, int)
    hints: Shapes = dict.fromkeys(_also(real), (1,))
    hints["token_embd.weight"] = (width, int(real.printed["n_vocab"]))
    known = _written(path, real, hints, {})
    hparams = hparams_of(known, drafts="nextn_predict_layers" in real.says)
    whole = shapes(hparams)
    may_be = extras(hparams) | _unused(whole, hparams)
    whole |= {name: may_be[name] for name in _also(real) if name not in whole}
    found = _written(path, real, whole, _types_of(whole, real.types))
    path.unlink()  # as large as the model, though empty
    return found


def _also(real: RealFile) -> list[str]:
    names = [name for name, layers in real.also.items() if not layers]
    for name, layers in real.also.items():
        names += [f"blk.{i}.{name}" for i, has in enumerate(layers) if has]
    return names


def _unused(whole: Shapes, hparams: Hparams) -> Shapes:
    """Keys and values of layers that read another's: as the other's."""
    found = {}
    for i, layer in enumerate(hparams.by_layer):
        for name in KEYS if layer.keys_of >= 0 else ():
            found[f"blk.{i}.{name}"] = whole[f"blk.{layer.keys_of}.{name}"]
    return found


def _types_of(whole: Shapes, told: Mapping[str, int]) -> dict[str, str]:
    """As many of each type as the file has: vectors are floats, then routers, and wide blocks are where they fit."""
    types = {name: "f32" for name in whole if is_vector(name)}
    matrices = sorted({*whole} - {*types}, key=lambda name: "ffn_gate_inp" not in name)
    if not told or ANY in told:
        return {**types, **dict.fromkeys(matrices, ANY)}
    left = {"f32": 0, **told}
    left["f32"] -= len(types)
    assert left["f32"] >= 0, f"{len(types)} vectors"
    for name in matrices:
        kinds = [kind for kind in left if left[kind] and whole[name][0] % BLOCKS[kind] == 0]
        assert kinds, f"{name} is of no type: {left}"
        is_router = "ffn_gate_inp" in name
        types[name] = max(kinds, key=lambda kind: (is_router == (kind == "f32"), BLOCKS[kind]))
        left[types[name]] -= 1
    return types


def _written(path: Path, real: RealFile, whole: Shapes, types: Mapping[str, str]) -> GgufHeader:
    writer = Writer(path, real.architecture)
    for name, value in real.says.items():
        key = f"{real.architecture}.{name}"
        if isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, _VALUE_TYPES[type(value)])
    size = 0
    for name, shape in whole.items():
        kind = TYPES[types.get(name, "f32")]
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        num_bytes = math.prod(shape) // block * block_bytes
        writer.add_tensor_info(name, shape[::-1], np.dtype(np.float16), num_bytes, kind)
        size += -(-num_bytes // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.truncate(-(-path.stat().st_size // 32) * 32 + size)
    return header(path)
