import hashlib
import unicodedata
from itertools import pairwise

from segue.engine.constraints.scalars.unicode_classes import unicode_class
from segue.unicode_categories import CATEGORIES, runs

# Of the categories of all characters in order, in Unicode 15.1.
SHA_256 = "67a0b0e5af91eaa82b53c03f6bede907b7ab54b7526bc1444adcd90d9f05275f"


def test_every_character_has_one_category() -> None:
    found = list(runs())
    assert (found[0].first, found[-1].last) == (0, 0x10FFFF)
    assert all(one.last + 1 == other.first for one, other in pairwise(found))
    assert {run.category for run in found} == set(CATEGORIES)


def test_the_table_is_that_of_one_version_of_unicode() -> None:
    whole = "".join(run.category * (run.last - run.first + 1) for run in runs())
    assert hashlib.sha256(whole.encode()).hexdigest() == SHA_256


def test_the_table_agrees_with_pythons() -> None:
    """Where both know a character: Python's is of another version. A later one may change a few."""
    num_known = num_other = 0
    for category, first, last in runs():
        for point in range(first, last + 1) if category != "Cn" else ():
            theirs = unicodedata.category(chr(point))
            num_known += theirs != "Cn"
            num_other += theirs not in ("Cn", category)
    assert num_known > 280_000
    assert num_other < 20


def test_a_pattern_means_the_same_with_every_python() -> None:
    """`\\p{Lm}` was what Python's own tables say: U+1E030 is a letter since Unicode 15.0, which Python 3.11 lacks."""
    assert any(low <= 0x1E030 <= high for low, high in unicode_class("Lm") or ())
