"""Files that tell of a window which no layer has."""

from segue.models.gguf import GgufHeader

_SIZE = "attention.sliding_window"
_PATTERN = "attention.sliding_window_pattern"
_NONE = 1  # as a period: one layer in so many sees all tokens


def sliding_window_obstacle(header: GgufHeader) -> str | None:
    """Why llama.cpp cannot run this file, or None.

    It keeps a cache for layers with a window and one for the others, and ends the process if no layer needs the first
    (build 11549).
    """
    prefix = f"{header.architecture}."
    listed = header.listed(_PATTERN)
    is_list = prefix + _PATTERN in header.array_lengths  # an empty one too
    is_none = not any(listed) if is_list else header.metadata.get(prefix + _PATTERN) == _NONE
    if is_none and header.metadata.get(prefix + _SIZE, True):
        return "no layer has the window that it tells of, over which it would end the process"
    return None
