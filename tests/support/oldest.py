"""The oldest versions that pyproject.toml allows, one a line, as constraints for pip: `make oldest`."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def oldest(requirements: list[str]) -> list[str]:
    """Of each requirement that holds here, the version that it names: `name>=1.2` is `name==1.2`."""
    known = map(Requirement, requirements)
    return [
        f"{each.name}=={bound.version}"
        for each in known
        if each.marker is None or each.marker.evaluate()
        for bound in each.specifier
        if bound.operator in (">=", "==")
    ]


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    print("\n".join(oldest(project["dependencies"] + project["optional-dependencies"]["otel"])))
