"""The wheel: built from here, put into an empty environment, served from there."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent.parent
READY = re.compile(r"segue is ready: (\S+)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    [path] = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(path)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with this wheel; its dependencies are those installed here, which saves minutes."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def url(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    command = [str(python), "-m", "segue", "serve", "--runner", "fake", "--port", "0"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with subprocess.Popen(
        command, cwd=elsewhere, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            lines = iter(process.stderr or ())
            found = next(filter(None, map(READY.search, lines)))
            yield found[1]
        finally:
            process.terminate()
            process.wait(30)


def test_it_is_the_wheel_that_runs(python: Path, tmp_path: Path) -> None:
    code = "import segue; print(segue.__file__)"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert str(python.parent.parent) in done.stdout


def test_it_serves_completions_and_the_page(url: str) -> None:
    body = {"prompt": "abc", "max_tokens": 4, "seed": 1}
    with httpx2.Client(base_url=url, timeout=30) as client:
        assert client.post("/v1/completions", json=body).json()["usage"]["completion_tokens"] == 4
        page = client.get("/", headers={"accept": "text/html"}).text
        for name in re.findall(r'"(/play/[^"]+)"', page):
            assert client.get(name).status_code == 200


def test_the_wheel_holds_what_it_needs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    inside = {path.relative_to(ROOT).as_posix() for path in (ROOT / "segue").rglob("*.*")}
    wanted = {name for name in inside if "__pycache__" not in name}
    assert wanted <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


def test_the_source_archive_can_be_made(tmp_path: Path) -> None:
    [path] = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    assert Path(path).stat().st_size > 100_000
