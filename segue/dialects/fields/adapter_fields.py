"""LoRA adapters of a request: llama.cpp's list with scales, mistral.rs' name. A name as the model needs no field."""

from dataclasses import dataclass
from typing import Any

from segue.bounds import MAX_NUMBER
from segue.dialects.fields.kinds import Integer, Kind, Mismatch, Number, Text, part
from segue.dialects.fields.table import Field
from segue.types import Adapter

MAX_ADAPTERS = 256
_KINDS: dict[str, Kind] = {
    "id": Integer(0, MAX_ADAPTERS - 1),
    "scale": Number(-MAX_NUMBER, MAX_NUMBER),
}


@dataclass(frozen=True)
class AdapterScales:
    """[{"id": 0, "scale": 0.5}, …]"""

    def read(self, value: Any) -> tuple[Adapter, ...]:
        if type(value) is not list or len(value) > MAX_ADAPTERS:
            raise Mismatch(f'a list of up to {MAX_ADAPTERS} objects {{"id", "scale"}}', value)
        return tuple(_entry(entry, f"[{i}]") for i, entry in enumerate(value))

    def schema(self) -> dict[str, Any]:
        entry = {
            "type": "object",
            "properties": {name: kind.schema() for name, kind in _KINDS.items()},
            "required": list(_KINDS),
        }
        return {"type": "array", "maxItems": MAX_ADAPTERS, "items": entry}


def _entry(entry: Any, at: str) -> Adapter:
    if type(entry) is not dict:
        raise Mismatch('an object {"id", "scale"}', entry, at)
    values = {name: part(entry, name, kind, at) for name, kind in _KINDS.items()}
    return Adapter(values["id"], values["scale"])


@dataclass(frozen=True)
class AdapterName:
    """The name of one, which is used at its own scale."""

    def read(self, value: Any) -> tuple[Adapter, ...]:
        return (Adapter(Text(256).read(value)),)

    def schema(self) -> dict[str, Any]:
        return Text(256).schema()


LORA = Field(
    "lora",
    AdapterScales(),
    "LoRA adapters by their numbers in `/lora-adapters`, with scales; those not listed are off. Without it those are "
    "on that the server applies. An adapter's name may be the `model` too.",
    "adapters",
)
ADAPTER = Field("adapter", AdapterName(), "The name of the LoRA adapter that is used.", "adapters")
