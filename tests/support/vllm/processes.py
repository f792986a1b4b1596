"""Which processes there are, by what Linux tells of them."""

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """All that were started by it, and by these."""
    parents = {int(stat.parent.name): fields[1] for stat, fields in _listed()}
    found = [pid]
    for each in found:  # grows meanwhile
        found += [child for child, parent in parents.items() if parent == str(each)]
    return found[1:]


def is_running(pid: int) -> bool:
    """Not so of one that has ended, though nobody has asked how."""
    return any(stat.parent.name == str(pid) and fields[0] != "Z" for stat, fields in _listed())


def _listed() -> list[tuple[Path, list[str]]]:
    """The file of each process, and what it says after the process's name: its state, its parent and so on."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found.append((stat, stat.read_text("latin-1").rpartition(")")[2].split()))
        except OSError:  # it has ended
            continue
    return found
