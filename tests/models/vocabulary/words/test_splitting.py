import pytest

from segue.models.vocabulary.words.splitting import Rule, split


@pytest.mark.parametrize(
    ("part_at", "text", "words"),
    [
        ("end", "ab1234567c89", ["ab1", "234", "567", "c89"]),
        ("end", "123456", ["123", "456"]),
        ("start", "ab1234567c89", ["ab1", "234", "567c89"]),
        ("start", "123456", ["123", "456"]),
        ("start", "a123", ["a", "123"]),
    ],
)
def test_digits_are_parted_from_their_end(part_at: str, text: str, words: list[str]) -> None:
    rule = Rule("[0-9]+", part_at="start" if part_at == "start" else "end")
    assert split(text, [rule]) == words


def test_each_rule_splits_what_the_one_before_left() -> None:
    rules = [Rule(r"[\p{N}]"), Rule(r" ?[\p{L}]+")]
    assert split("aé 12 ü  3\u3000\n", rules) == ["aé", " ", "1", "2", " ü", "  ", "3", "\u3000\n"]
    assert split("", rules) == []


def test_trailing_space_is_a_word() -> None:
    rules = [Rule("\n"), Rule(part_at="trailing space")]
    assert split(" a\u3000 \n\t b  \n  ", rules) == [
        " a",
        "\u3000 ",
        "\n",
        "\t b",
        "  ",
        "\n",
        "  ",
    ]
    text = " " * 300_000 + "x"
    assert split(text, rules) == [text]


def test_texts_of_many_words_and_of_one_take_few_steps() -> None:
    rules = [Rule(r"[\p{N}]+", part_at="end"), Rule(r"[\p{L}]+|\s+(?!\S)|\s+")]
    for text in ("1" * 300_000, "a" * 300_000, " " * 300_000, "a1 " * 100_000):
        assert "".join(split(text, rules)) == text
