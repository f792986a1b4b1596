import unicodedata
from pathlib import Path

import pytest

from segue.models.vocabulary.words import categories
from segue.unicode_categories import runs
from tests.support.models.tiny_gguf import byte_alphabet
from tests.support.models.vocabulary_files import NORMAL, Both, VocabularyFile


def _points() -> list[int]:
    """Both ends of every run, and some between."""
    near = {point for run in runs() for point in (run.first, run.last)}
    found = sorted(near | {*range(0x80, 0x33480, 97)})
    return [point for point in found if 0x80 <= point < 0xD800 or 0xE000 <= point < 0x110000]


def _vocabulary(pre: str) -> VocabularyFile:
    """One byte of ASCII merges with the first of any other character, where both are in one word."""
    alphabet = byte_alphabet()
    pairs = [
        f"{alphabet[ord(left)]} {alphabet[right]}" for left in "a1! " for right in range(0xC2, 0xF5)
    ]
    tokens = [*alphabet.values(), *(pair.replace(" ", "") for pair in pairs)]
    return VocabularyFile("gpt2", tokens, [NORMAL] * len(tokens), merges=pairs, pre=pre)


# These together tell all categories apart.
@pytest.mark.parametrize("pre", ["afmoe", "falcon", "qwen2", "qwen35", "spark2_5"])
def test_every_character_has_llama_cpps_category(tmp_path: Path, pre: str) -> None:
    both = Both(_vocabulary(pre).write(tmp_path / "x.gguf"))
    points = _points()
    for start in range(0, len(points), 512):
        some = map(chr, points[start : start + 512])
        text = "".join(f"a{each}1{each}!{each} {each}\n" for each in some)
        assert both.ours.tokenize(text, False, False) == both.theirs.tokenize(text, False, False)
    both.close()


def test_the_table_agrees_with_pythons() -> None:
    """Where both know a character; Python's is of another version of Unicode, from 3.14 on of a newer one."""
    is_newer = unicodedata.unidata_version.partition(".")[0] > "15"
    stand_ins = dict(zip("NLPMS", "\xd1\xd2\xd3\xd4\xd5", strict=True))
    for point in range(0xA1, 0x3000):
        category = unicodedata.category(chr(point))[0]
        if category in stand_ins and chr(point) not in "ſ":
            ours = categories.in_classes(chr(point))
            assert ours == stand_ins[category] or (is_newer and ours == "\xd0"), hex(point)


def test_white_space_is_a_tab_and_all_else_as_it_is() -> None:
    assert categories.in_plain_space("a\u3000é\x85\u2003\u200b") == "a\v" + "é\v\v\u200b"
    assert categories.in_classes("aZ \n'é\u3000\u200d") == "aZ \n'\xd2\v\xd6"


def test_chinese_characters_are_no_letters_among_themselves() -> None:
    assert categories.with_han("一a\u9fffé\U0002a6df\U0002b739+") == "\xd7a\xd7\xd2\xd7\xd7+"
