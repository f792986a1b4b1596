"""The wheel: built from here, put into an empty environment, served from there.

Twice: quickly, with the dependencies of this environment lent to it; and, for `make build` (`-m package`), installed by
pip with all it needs into an environment that has nothing.
"""

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

import segue
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.oldest import oldest
from tests.support.waiting import LOADING_S, PATIENCE_S

ROOT = Path(__file__).parent.parent.parent
ABOUT = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
PYTHON = "Programming Language :: Python ::"
READY = re.compile(r"segue is ready: (\S+)")

# Where llvmlite 0.50 has wheels; elsewhere pip would fetch its sources and look for a compiler. It has them for Windows
# on ARM too, where xllamacpp has none.
PLATFORMS_WITH_KERNELS = {
    ("linux", "x86_64", "3.11"): True,
    ("linux", "aarch64", "3.15"): True,
    ("darwin", "arm64", "3.14"): True,
    ("darwin", "x86_64", "3.12"): False,
    ("win32", "AMD64", "3.13"): True,
    ("win32", "ARM64", "3.13"): False,
    ("linux", "riscv64", "3.13"): False,
    ("linux", "x86_64", "3.16"): False,
}


@pytest.mark.parametrize("platform", PLATFORMS_WITH_KERNELS, ids=str)
def test_the_compiler_of_kernels_is_asked_for_where_it_has_wheels(
    platform: tuple[str, str, str],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [marker] = [
        known.marker
        for known in map(Requirement, project["dependencies"])
        if known.name == "llvmlite"
    ]
    names = ("sys_platform", "platform_machine", "python_version")
    assert marker is not None
    assert (
        marker.evaluate(dict(zip(names, platform, strict=True))) == PLATFORMS_WITH_KERNELS[platform]
    )


def test_every_dependency_names_the_oldest_version_that_it_was_tested_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["otel"]
    named = {pin.partition("==")[0] for pin in oldest(requirements)}
    assert named == {
        each.name
        for each in map(Requirement, requirements)
        if each.marker is None or each.marker.evaluate()
    }


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


def sources() -> set[str]:
    """The files of the package here."""
    inside = (path for path in (ROOT / "segue").rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in inside if "__pycache__" not in path.parts}


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@contextmanager
def serving(folder: Path, *command: str | Path) -> Iterator[re.Match[str]]:
    """A server, until the test is over: the line in which it says that it is ready, and its address in there."""
    with subprocess.Popen(
        [*command, "--port", "0"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            lines = iter(process.stderr or ())
            yield next(filter(None, map(READY.search, lines)))
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def url(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with serving(elsewhere, python, "-m", "segue", "serve", "--runner", "fake") as ready:
        yield ready[1]


def test_it_is_the_wheel_that_runs(python: Path, tmp_path: Path) -> None:
    code = "import segue; print(segue.__file__)"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert str(python.parent.parent) in done.stdout


def test_it_serves_completions_and_the_page(url: str) -> None:
    body = {"prompt": "abc", "max_tokens": 4, "seed": 1}
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
        assert client.post("/v1/completions", json=body).json()["usage"]["completion_tokens"] == 4
        page = client.get("/", headers={"accept": "text/html"}).text
        for name in re.findall(r'"(/play/[^"]+)"', page):
            assert client.get(name).status_code == 200


@pytest.mark.package
@pytest.mark.timeout(1800)
def test_pip_installs_it_where_nothing_is_and_our_kernels_serve(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    bin = tmp_path / "env" / "bin"
    pip = [str(bin / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for command in (["install", str(wheel)], ["check"]):
        subprocess.run([*pip, *command], env=environment(), cwd=tmp_path, check=True)
    model = tmp_path / "tiny.gguf"
    write_tiny_gguf(model)
    with serving(tmp_path, bin / "segue", "serve", model) as ready:
        assert "runner cpu" in ready.string  # no extra was needed to be fast
        body = {"prompt": "abc", "max_tokens": 4, "temperature": 0}
        answer = httpx2.post(ready[1] + "/v1/completions", json=body, timeout=LOADING_S).json()
    assert answer["usage"]["completion_tokens"] > 0


def test_the_wheel_holds_what_it_needs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [entry_points] = [name for name in names if name.endswith("/entry_points.txt")]
        commands = archive.read(entry_points).decode()
    about = entry_points.removesuffix("entry_points.txt")
    assert {name for name in names if not name.startswith(about)} == sources()
    assert {name.removeprefix(about) for name in names if name.startswith(about)} == ABOUT
    assert "segue = segue.cli:main" in commands


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        said = email.message_from_bytes(archive.read(name))
    assert said["Version"] == segue.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Description-Content-Type"] == "text/markdown"
    classifiers = said.get_all("Classifier", [])
    releases = [line.split(" :: ")[-1] for line in classifiers if PYTHON in line]
    assert releases[0] == "3"  # whichever
    assert said["Requires-Python"] == f">={releases[1]}"


def test_the_source_archive_holds_what_it_is_built_and_tested_from(tmp_path: Path) -> None:
    [path] = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", "Makefile"} <= names
    assert sources() <= names
    assert not [name for name in names if re.search(r"__pycache__|\.(pyc|gguf|so|whl)$", name)]
