"""Files over which llama.cpp computes for ever, where it could refuse them."""

from segue.models.gguf import GgufHeader

_KEY = "attention.head_count"


def unturned_obstacle(header: GgufHeader) -> str | None:
    """Why llama.cpp cannot run this file, or None.

    It counts the dimensions that positions turn by the heads of the first layer. In PLaMo 2 that layer has none, and a
    loop over the dimensions that do not turn never ends (build 11549).
    """
    first = next(iter(header.listed(_KEY)), header.count(_KEY))
    if header.architecture == "plamo2" and not first:
        return "its first layer has no heads, by which it would turn positions"
    return None
