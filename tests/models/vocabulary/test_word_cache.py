from segue.models.vocabulary import word_cache
from segue.models.vocabulary.word_cache import WordCache


def test_words_are_looked_up_once_long_ones_each_time() -> None:
    asked: list[str] = []

    def look_up(word: str) -> list[int]:
        asked.append(word)
        return [len(word)]

    known, long = WordCache(look_up), "x" * (word_cache._LONGEST + 1)
    assert [known("ab"), known("ab"), known(long), known(long)] == [[2], [2], [65], [65]]
    assert asked == ["ab", long, long]


def test_it_does_not_grow_for_ever() -> None:
    known = WordCache(lambda word: [])
    for number in range(word_cache._MOST_WORDS + 10):
        known(str(number))
    assert len(known._known) <= word_cache._MOST_WORDS
