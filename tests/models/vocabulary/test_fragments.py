from segue.models.vocabulary.fragments import Special, fragments, ordered


def special(token: int, text: str, left: bool = False, right: bool = False) -> Special:
    return Special(token, text, left, right)


def test_the_longest_is_found_first_wherever_it_is() -> None:
    found = ordered([special(1, "<a>"), special(2, "<a><b>"), special(3, "é>")])
    assert [each.token for each in found] == [2, 1, 3]
    assert fragments("<a>x<a><b>é>", found) == [1, "x", 2, 3]
    assert fragments("", found) == []
    assert fragments("<b", found) == ["<b"]


def test_some_take_the_white_space_beside_them() -> None:
    assert fragments("a \n<l> b <l>", [special(1, "<l>", left=True)]) == ["a", 1, " b", 1]
    assert fragments("<r> a <r>\t\n", [special(1, "<r>", right=True)]) == [1, "a ", 1]
    assert fragments("a\u3000<l>", [special(1, "<l>", left=True)]) == ["a\u3000", 1]


def test_many_of_them_take_few_steps() -> None:
    assert fragments("<a>x" * 100_000, [special(1, "<a>")]) == [1, "x"] * 100_000
