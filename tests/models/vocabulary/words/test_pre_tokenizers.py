import random
from pathlib import Path

import pytest

from segue.models.vocabulary.byte_spelling import spell
from segue.models.vocabulary.words.pre_tokenizers import PRE_TOKENIZERS
from tests.support.models.tiny_gguf import byte_alphabet
from tests.support.models.vocabulary_files import (
    CONTROL,
    NORMAL,
    USER_DEFINED,
    Both,
    VocabularyFile,
)

# Every pair of the bytes of these merges, so that a boundary between any two of them is seen in the tokens.
_PAIRED = " \n\t\r'’sSrReElLaZ19.,$<é½ſ一あ가\u0301\u200d\u3000😀"
_WORDS = (
    *("it's", "I'LL", "don'T", "we've", "'ſx", "HTTPServer", "aZ", "éÉé", "12345", "1234567890", "3.14"),
    *("a1234567b", "٣٤٥٦", "½²Ⅻ", "IMGIMGABCDZ", "<sentinel:12>", "日本語", "Привет", "가나", "ㄱㄴ", "ㄅㄆ"),
    *("あア", "豈", "ก็ကខ", "e\u0301\u0302x", "a\u200db\u200c", "…。，、।۔،", "“x”", "!!!\n\n", "//\r\n/"),
    *("  \n \n  x", "\r\n\r\n", " " * 13, "\t\t ", "\u3000\u2003 x", "\x85\xa0", "x = {y: [z]}\n    return"),
    *("<|im_start|>", "<tool>", "$+<=>^~|`", "😀👩‍🚀", "\0\x01\x1c\x1f\x7f", "\ufffd\uffff\U0010ffff"),
    *("\U00010400\U0001e900", "\u9fff\u4dbf\u4dc0!\U0002a6df\U0002a6e0\U0002ebf0\U0002fa1f", "_a_b-c"),
)  # fmt: skip


def _texts(name: str, count: int) -> list[str]:
    """The same in every run."""
    draw = random.Random(name)

    def part() -> str:
        kind = draw.randrange(5)
        if kind < 2:
            return draw.choice(_WORDS)
        if kind < 4:
            return draw.choice(_PAIRED) * draw.choice((1, 1, 1, 2, 5))
        return chr(draw.choice((draw.randrange(0xD800), draw.randrange(0xE000, 0x110000))))

    return ["".join(part() for _ in range(draw.randrange(1, 30))) for _ in range(count)]


def _vocabulary(pre: str) -> VocabularyFile:
    alphabet, is_byte_level = byte_alphabet(), PRE_TOKENIZERS[pre].is_byte_level
    units = (
        [alphabet[byte] for byte in sorted({*_PAIRED.encode()})]
        if is_byte_level
        else [*_PAIRED.replace(" ", "▁")]
    )
    pairs = [f"{left} {right}" for left in units for right in units]
    words = [
        spell(word) if is_byte_level else word.replace(" ", "▁") for word in (" the", "12", "\n\n")
    ]
    ones = (
        alphabet.values()
        if is_byte_level
        else (*units, *(f"<0x{b:02X}>" for b in range(0, 256, 2)))
    )
    tokens = [*dict.fromkeys((*ones, *(pair.replace(" ", "") for pair in pairs), *words))]
    kinds = [NORMAL] * len(tokens) + [CONTROL, CONTROL, USER_DEFINED]
    return VocabularyFile(
        "gpt2",
        [*tokens, "<|endoftext|>", "<|im_start|>", "<tool>"],
        kinds,
        merges=pairs,
        pre=pre or None,
        values={"bos_token_id": len(tokens), "eos_token_id": len(tokens)},
    )


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_every_name_splits_as_llama_cpp_does(tmp_path: Path, pre: str) -> None:
    both = Both(_vocabulary(pre).write(tmp_path / "x.gguf"))
    both.check_facts()
    for text in _texts(pre, 15):
        both.check(text)
    both.close()


def test_a_vocabulary_of_merges_without_words_has_its_own_name(tmp_path: Path) -> None:
    """Gemma 4's: `tokenizer.ggml.model` is its name, and says all that `tokenizer.ggml.pre` would."""
    file = _vocabulary("gemma4")
    both = Both(
        VocabularyFile(
            "gemma4", file.tokens, file.kinds, merges=file.merges, values={"bos_token_id": 3}
        ).write(tmp_path / "x.gguf")
    )
    both.check_facts()
    for text in _texts("gemma4, the model", 25):
        both.check(text)
    both.close()
