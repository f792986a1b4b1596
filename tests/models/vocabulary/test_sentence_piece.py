import random
from pathlib import Path

import pytest

from tests.support.models.vocabulary_files import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Both,
    VocabularyFile,
)

ALPHABET = "▁abcd'é一😀<s>/\n"
# Of different lengths: which of two that overlap and are as long is found first, only llama.cpp's sort knows.
SPECIAL = {
    "<unk>": UNKNOWN,
    "<s>": CONTROL,
    "</s>": CONTROL,
    "  ": USER_DEFINED,
    "<|im_end|>": NORMAL,
}


def vocabulary(draw: random.Random) -> VocabularyFile:
    tokens = {**SPECIAL, **{f"<0x{byte:02X}>": BYTE for byte in range(256)}}
    for _ in range(draw.randrange(5, 150)):
        length = draw.choice((1, 1, 2, 2, 2, 3, 4, 6))
        text = "".join(draw.choice(ALPHABET) for _ in range(length))
        tokens.setdefault(text, draw.choice((NORMAL, NORMAL, NORMAL, UNUSED)))
    # Equal scores are common: then the leftmost pair is merged.
    scores = [draw.choice((0.0, -1.0, -2.0, -draw.random())) for _ in tokens]
    values = {"add_space_prefix": draw.random() < 0.5, "bos_token_id": 1, "eos_token_id": 2}
    return VocabularyFile("llama", [*tokens], [*tokens.values()], scores, values=values)


@pytest.mark.parametrize("seed", range(12))
def test_random_vocabularies_have_llama_cpps_tokens(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    file = vocabulary(draw)
    both = Both(file.write(tmp_path / "x.gguf"))
    both.check_facts()
    choices = [*ALPHABET, " ", "  ", "\t", *map(str, file.tokens)]
    for _ in range(25):
        both.check("".join(draw.choice(choices) for _ in range(draw.randrange(40))))
    both.close()
