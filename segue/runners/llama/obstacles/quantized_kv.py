"""A KV cache of 8 bits on llama.cpp."""

from segue.models.gguf import GgufHeader

NO_FLASH_ATTENTION = {"plm"}  # architectures on which it ends the process
_NEVER_FLASH = NO_FLASH_ATTENTION | {"grok"}  # and on which llama.cpp turns it off
_GROUP = 32  # numbers that share a scale


def kv_obstacle(header: GgufHeader, kv_type: str) -> str | None:
    """Why llama.cpp cannot keep this model's KV so, or None if it can."""
    if kv_type == "f16":
        return None
    if header.architecture in _NEVER_FLASH:
        return (
            f"--kv-type {kv_type} needs flash attention, which {header.architecture} goes without"
        )
    for size in _head_sizes(header):
        if size % _GROUP:
            return f"--kv-type {kv_type} needs heads of a multiple of {_GROUP}, not of {size}"
    return None


def _head_sizes(header: GgufHeader) -> list[int]:
    """Of keys and values: what the file says, or what is left by the number of heads."""
    listed = header.listed("attention.head_count")
    heads = max([each for each in listed if isinstance(each, int)], default=0)
    heads = header.count("attention.head_count") or heads
    usual = header.count("embedding_length") // heads if heads else 0
    keys = ("attention.key_length", "attention.value_length")
    return [header.count(key) or usual for key in keys]
