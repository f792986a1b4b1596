from segue.models.vocabulary import known_words
from segue.models.vocabulary.known_words import KnownWords


def test_words_are_looked_up_once_long_ones_each_time() -> None:
    asked: list[str] = []

    def look_up(word: str) -> list[int]:
        asked.append(word)
        return [len(word)]

    known, long = KnownWords(look_up), "x" * (known_words._LONGEST + 1)
    assert [known("ab"), known("ab"), known(long), known(long)] == [[2], [2], [65], [65]]
    assert asked == ["ab", long, long]


def test_it_does_not_grow_for_ever() -> None:
    known = KnownWords(lambda word: [])
    for number in range(known_words._MOST_WORDS + 10):
        known(str(number))
    assert len(known._known) <= known_words._MOST_WORDS
