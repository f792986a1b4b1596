"""Whether this environment has what pyproject.toml asks for, and runs this folder: then no package index need be asked.

`python tests/support/installed.py [EXTRA]` exits with 1 if something is missing, and names it.
"""

import json
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def missing(project: Mapping[str, Any], extra: str = "") -> list[str]:
    """Requirements that are not met, and the project itself where its commands are not those of before."""
    extras = project["optional-dependencies"][extra] if extra else []
    known = map(Requirement, [*project["dependencies"], *extras])
    wanted = [each for each in known if each.marker is None or each.marker.evaluate()]
    found = [str(each) for each in wanted if not _is_met(each)]
    return found if _commands() == _asked(project) else [*found, project["name"]]


def _is_met(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def _asked(project: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    groups = {"console_scripts": project["scripts"], **project.get("entry-points", {})}
    return {(group, name, value) for group, rows in groups.items() for name, value in rows.items()}


def _commands(name: str = "segue") -> set[tuple[str, str, str]]:
    def facts(each: EntryPoint) -> tuple[str, str, str]:
        return each.group, each.name, each.value

    try:
        return {facts(each) for each in distribution(name).entry_points}
    except PackageNotFoundError:
        return set()


def elsewhere(folder: Path, name: str = "segue") -> str:
    """Where the project was installed from, if not from this folder: a clone that was copied or moved with its
    environment would run the code of the old one, or nothing."""
    try:
        told = distribution(name).read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    url = str(json.loads(told)["url"]) if told else "an index"
    source = Path(url2pathname(urlsplit(url).path))
    return "" if url.startswith("file:") and source.resolve() == folder.resolve() else url


if __name__ == "__main__":
    found = missing(tomllib.loads(PROJECT.read_text("utf-8"))["project"], *sys.argv[1:])
    sys.exit(", ".join(found) or elsewhere(PROJECT.parent) or 0)
