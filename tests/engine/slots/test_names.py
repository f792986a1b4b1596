"""Which names a client may give to files: plain ones, as llama.cpp's server has them, and a little less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.slots.names import check_name
from segue.errors import InvalidField


@pytest.mark.parametrize(
    "name",
    ["a", "slot_save_file.bin", "Ärger 2.bin", "日本", "a" * 255, "console", "a.b.c", "COM10"],
)
def test_plain_names_pass(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "there is none"),
        ("a" * 256, "longer"),
        ("日" * 86, "longer"),
        ("a/b", "'/'"),
        ("..", "dot"),
        (".", "dot"),
        ("../a", "'/'"),
        ("a\\b", r"'\\\\'"),
        ("C:a", "':'"),
        ("a..b", "two dots"),
        (".hidden", "dot"),
        ("a.", "dot"),
        (" a", "space"),
        ("a ", "space"),
        ("a\nb", "control"),
        ("a\x00", "control"),
        ("a\x85", "control"),
        ("\u2215etc\u2215passwd", "u2215"),
        ("a\uff0eb", "uff0e"),
        ("a\ufeff", "ufeff"),
        ("\ud800", "half a character"),
        ("nul", "device"),
        ("NUL.bin", "device"),
        ("com1 .txt", "device"),
        ("COM\u00b9.bin", "device"),
        ("conout$", "device"),
    ],
)
def test_others_are_refused_and_told_why(name: str, why: str) -> None:
    with pytest.raises(InvalidField, match=why) as raised:
        check_name(name)
    assert raised.value.param == "filename"


@given(st.text(max_size=40))
def test_what_passes_is_the_name_of_a_file_in_its_folder(name: str) -> None:
    try:
        check_name(name)
    except InvalidField:
        return
    assert not {"/", "\\", "\0", ":"} & set(name)
    assert name not in ("", ".", "..")
    assert name == name.strip(" ")
