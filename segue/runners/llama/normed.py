"""Files whose norms of queries and keys end llama.cpp's process."""

from segue.models.gguf import GgufHeader


def normed_obstacle(header: GgufHeader) -> str | None:
    """Why llama.cpp cannot run this file, or None.

    In MPT's models queries, keys and values are cut out of one product's rows. Where it norms them, it takes those of
    several rows to lie side by side, and ends the process, since they do not (build 11549).
    """
    is_normed = any(tensor.name.endswith("attn_q_norm.weight") for tensor in header.tensors)
    if header.architecture == "mpt" and is_normed:
        return "its queries and keys are normed, over which it would end the process"
    return None
