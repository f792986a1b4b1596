from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.rendering.template import Template, hole

TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["\0", "\0text\0", '"', "\\u0000", "é\n"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-9, 9), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@given(VALUES, VALUES, TEXTS, TEXTS)
def test_a_filled_template_is_the_object_itself(
    constant: Any, changing: Any, key: str, text: str
) -> None:
    """Byte for byte, whatever the constant parts hold."""

    def pattern(text: Any, more: Any) -> dict[str, Any]:
        return {key: constant, "choices": [{"text": text, "at": 0}], "more": more, "end": None}

    template = Template(pattern(hole("text"), hole("more")))
    for each in (text, "again"):
        filled = template.fill({"text": each, "more": changing, "unused": 1})
        assert msgspec.json.encode(filled) == msgspec.json.encode(pattern(each, changing))


def test_without_holes_it_is_constant() -> None:
    assert bytes(Template({"a": 1}).fill({})) == b'{"a":1}'
