"""The changelog's topics are where a reader looks for them, and short enough to be read."""

from pathlib import Path

CHANGELOG = Path(__file__).parent.parent.parent / "CHANGELOG.md"
TOPICS = (
    "CPU runner and models",
    "Dialects",
    "Sampling",
    "Constraints",
    "Infill",
    "Scoring",
    "Engine, scheduling and prefix cache",
    "Server and reliability",
    "Commands and library",
    "The page",
    "vLLM's engine",
    "Deployment",
    "Documents and benchmarks",
)


MOST_WORDS = 3_000  # of what was never released: what a user gets, not how it came


def newest_version() -> list[str]:
    """What stands before the first topic, then each topic: its name, a line break, its text."""
    return CHANGELOG.read_text(encoding="utf-8").split("\n## ")[1].split("\n### ")


def test_topics_are_in_order_and_hold_every_entry() -> None:
    head, *topics = newest_version()
    assert "\n- " not in head
    names = [topic.partition("\n")[0] for topic in topics]
    assert names == [name for name in TOPICS if name in names]
    assert all(topic.partition("\n")[2].startswith("\n- ") for topic in topics)


def test_it_is_read_to_its_end() -> None:
    assert len(CHANGELOG.read_text(encoding="utf-8").split()) < MOST_WORDS
