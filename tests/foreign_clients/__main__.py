"""Serves the fake runner, installs what is missing into FOLDER and runs every client: `make clients`.

    python -m tests.foreign_clients FOLDER [--without guidellm]

Needs node 22, npm and an index of packages. guidellm brings torch: where there is a build without CUDA, such as
`torch==…+cpu`, put it into FOLDER/venv first, which saves gigabytes.
"""

import argparse
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from segue.runners.fake import FakeLoader
from tests.support.live import serve

HERE = Path(__file__).parent
PACKAGES = ["llm", "llama-index-llms-openai-like>=0.4", "guidellm", "litellm"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without", nargs="*", default=[])
    options = parser.parse_args()
    python = _environment(
        options.folder, [p for p in PACKAGES if p.split(">")[0] not in options.without]
    )
    with serve(FakeLoader("fake"), "fake") as served:
        codes = [
            subprocess.run(
                ["node", "clients.mjs", served.url, "fake"], cwd=options.folder
            ).returncode,
            subprocess.run([python, HERE / "clients.py", served.url, "fake"]).returncode,
        ]
    print(json.dumps({"ok": not any(codes)}))
    sys.exit(any(codes))


def _environment(folder: Path, packages: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "clients.mjs"):
        shutil.copy(HERE / name, folder)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, check=True)
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # The pip that comes with Python 3.11 takes minutes to choose among the releases of these.
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    subprocess.run([*pip, *packages], check=True)
    return python


if __name__ == "__main__":
    main()
