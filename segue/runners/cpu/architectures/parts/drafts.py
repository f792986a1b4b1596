"""The MTP layer (`nextn`, multi-token prediction), by which a model drafts for itself.

It takes a token's embedding and what the model made of the token before, both normed, as one row of twice the width;
a product (`eh_proj`) makes a row of it, and then it is a layer as the others are. What the head makes of its output is
a guess at the token after. Embeddings, last norm and head are the model's, unless the file has others for it.
"""

EMBEDDING, HEAD = "nextn.embed_tokens.weight", "nextn.shared_head_head.weight"
LAST_NORMS = (
    "nextn.shared_head_norm",
    "layer_output_norm",
)  # before the head: the first that is there
PAIRED, NORMS = "nextn.eh_proj.weight", ("nextn.enorm", "nextn.hnorm")


def draft_shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Tensors that it must have, besides those of a layer."""
    return {PAIRED: (2 * width, width)} | {f"{name}.weight": (width,) for name in NORMS}


def draft_extras(width: int, vocab_size: int) -> dict[str, tuple[int, ...]]:
    """Tensors that it may have."""
    whole = (width, vocab_size)
    return {EMBEDDING: whole, HEAD: whole, **{f"{name}.weight": (width,) for name in LAST_NORMS}}
