"""The changelog's groups and topics are where a reader looks for them."""

import re
from pathlib import Path

CHANGELOG = Path(__file__).parent.parent.parent / "CHANGELOG.md"
GROUPS = ("Added", "Changed", "Fixed", "Removed", "Security")
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


def newest_version() -> list[str]:
    """What stands before the first group, then each group: its name, a line break, its text."""
    return CHANGELOG.read_text(encoding="utf-8").split("\n## ")[1].split("\n### ")


def test_groups_are_in_order_and_hold_every_entry() -> None:
    head, *groups = newest_version()
    assert "\n- " not in head
    names = [group.partition("\n")[0] for group in groups]
    assert names == [name for name in GROUPS if name in names]


def test_entries_of_a_group_stand_under_topics_in_order() -> None:
    for group in newest_version()[1:]:
        items = re.findall(r"^- (.*)$", group, flags=re.MULTILINE)
        topics = [item.removeprefix("**").partition("**")[0].removesuffix(".") for item in items]
        assert topics == [topic for topic in TOPICS if topic in topics]
