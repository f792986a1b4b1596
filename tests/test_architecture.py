"""The import law, as a table. A room may use what its row says and nothing else of ours."""

import ast
import functools
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
MAX_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_POSITIONAL = 6  # arguments without a name: more of them cannot be told apart at the call
MAX_ARGUMENTS = 12
# Arguments of kernels have no names, and those of a command are its options.
WITHOUT_NAMES = ("compiled", "define", "click.command")

# Room (longest match) → what of ours it may import; a name stands for everything under it.
_BASE = (
    "segue.types",
    "segue.errors",
    "segue.bounds",
    "segue.exact_math",
    "segue.fingerprint",
    "segue.detokenizer",
    "segue.unicode_categories",
)
_BELOW_REQUEST = ("segue.engine.sampling", "segue.engine.constraints", "segue.engine.infill")
_REQUEST = (*_BASE, "segue.engine.seam", "segue.engine.tokens", *_BELOW_REQUEST)
LAW: dict[str, tuple[str, ...]] = {
    "segue.types": ("segue.types",),
    "segue.errors": (),
    "segue.bounds": (),
    "segue.exact_math": (),
    "segue.fingerprint": (),
    "segue.detokenizer": (),
    "segue.unicode_categories": (),
    "segue.logs": (),
    "segue.imports": (),
    "segue.cpus": ("segue.machine",),
    "segue.processes.shared_numbers": (),
    "segue.processes.sharing": (),
    "segue.unix_socket": ("segue.errors",),
    "segue.setting": ("segue.errors", "segue.unix_socket"),
    "segue.config": ("segue.setting", "segue.errors", "segue.cpus"),
    "segue.metrics": ("segue.types", "segue.metrics", "segue.processes.shared_numbers"),
    "segue.dialects": (*_BASE, "segue.dialects"),
    # Inside the engine: process → slots → scheduling → request → {infill, constraints, sampling} → seam.
    "segue.engine": (*_BASE, "segue.engine.seam"),
    "segue.engine.sampling": (
        *_BASE,
        "segue.engine.seam",
        "segue.engine.tokens",
        "segue.engine.sampling",
    ),
    "segue.engine.constraints": (*_BASE, "segue.engine.seam", "segue.engine.constraints"),
    "segue.engine.infill": (
        *_BASE,
        "segue.engine.seam",
        "segue.engine.tokens",
        "segue.engine.infill",
    ),
    "segue.engine.request": (*_REQUEST, "segue.engine.request"),
    "segue.engine.scheduling": (*_REQUEST, "segue.engine.request", "segue.engine.scheduling"),
    "segue.engine.slots": (
        *_REQUEST,
        "segue.engine.request",
        "segue.engine.scheduling",
        "segue.engine.slots",
    ),
    "segue.engine.process": (*_BASE, "segue.logs", "segue.cpus", "segue.imports", "segue.engine"),
    "segue.server": (
        "segue",
        *_BASE,
        "segue.dialects",
        "segue.engine.seam",
        "segue.metrics",
        "segue.processes.sharing",
        "segue.processes.shared_numbers",
        "segue.server",
        "segue.unix_socket",
    ),
    # Several server processes over one engine: the parent, and the models as one of them sees them.
    "segue.processes": (
        *_BASE,
        "segue.engine.seam",
        "segue.engine.process",
        "segue.processes",
    ),
    "segue.runners": (
        *_BASE,
        "segue.cpus",
        "segue.machine",
        "segue.engine.seam",
        "segue.models",
        "segue.runners",
    ),
    # Another engine, the same events: everything of a request, but no scheduler and no worker.
    "segue.distributed": (
        *_REQUEST,
        "segue.engine.request",
        "segue.engine.process.mailbox",
        "segue.engine.process.supervisor",
        "segue.models.model_defaults",
        "segue.models.vocabulary.byte_spelling",
        "segue.distributed",
    ),
    # Its part of the assembly, read only where vLLM serves.
    "segue.distributed.assembly": (
        *_BASE,
        "segue.config",
        "segue.distributed",
        "segue.engine.seam",
        "segue.engine.process.adapter_list",
        "segue.engine.process.fleet",
        "segue.engine.process.shared_engine",
        "segue.engine.process.spawning",
        "segue.models",
    ),
    "segue.models": (*_BASE, "segue.models"),
    "segue.models.vocabulary": (*_BASE, "segue.engine.seam", "segue.models"),
    "segue.bench": (
        *_BASE,
        "segue.bench",
        "segue.logs",
        "segue.config",
        "segue.cpus",
        "segue.engine",
        "segue.logs",
        "segue.machine",
        "segue.models",
        "segue.runners",
        "segue.unix_socket",
    ),
    "segue.library": (
        *_BASE,
        "segue.config",
        "segue.assembly",
        "segue.engine.seam",
        "segue.engine.process.fleet",
        "segue.engine.process.new_worker",
        "segue.models.progress",
        "segue.dialects",
        "segue.library",
    ),
    "segue.machine": (),
    "segue.commands": (
        "segue",
        *_BASE,
        "segue.logs",
        "segue.setting",
        "segue.config",
        "segue.cpus",
        "segue.unix_socket",
        "segue.machine",
        "segue.imports",
        "segue.models",
        "segue.assembly",
        "segue.engine.process.new_worker",
        "segue.engine.sampling.sampler",
        "segue.engine.seam",
        "segue.dialects",
        "segue.commands",
    ),
}

# Library → the only modules that may import it (by prefix).
OWNERS: dict[str, tuple[str, ...]] = {
    "ctypes": ("segue.runners.cpu", "segue.runners.llama"),
    "llvmlite": ("segue.runners.cpu",),
    "xllamacpp": ("segue.runners.llama",),
    "vllm": ("segue.distributed",),
    "torch": ("segue.distributed",),
    "jinja2": ("segue.dialects.templates",),
    "llguidance": ("segue.engine.constraints",),
    "opentelemetry": ("segue.server.tracing",),
    "starlette": ("segue.server", "segue.cli"),
    "uvicorn": ("segue.server", "segue.cli"),
    "click": (
        "segue.cli",
        "segue.serving",
        "segue.assembly.server",
        "segue.commands",
        "segue.bench",
    ),
    "pickle": (),
}

# Library that comes with an extra, or by hand → the only modules that may import it.
OPTIONAL: dict[str, str] = {
    "jsonschema": "segue.bench.exactness",
    "opentelemetry": "segue.server.tracing",
    "ray": "segue.distributed",
    "torch": "segue.distributed",
    "vllm": "segue.distributed",
}

# Nothing of the wire reaches the engine. JSON is read there only where it is a constraint: a schema.
BANNED: dict[str, tuple[str, ...]] = {"segue.engine": ("json", "http", "starlette", "uvicorn")}
JSON_READERS = "segue.engine.constraints"

# The only modules without a row in the law: they build the concretes and run them.
BUILDERS = ("segue", "segue.__main__", "segue.cli", "segue.serving", "segue.assembly")

# What every dialect may share. Everything else in dialects/ is a dialect: a module or a package.
DIALECT_ROOMS = {"base", "fields", "rendering", "templates", "reference"}

MAX_MODULES = 16  # in a folder, besides __init__


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / "segue").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


class Function(NamedTuple):
    name: str
    num_lines: int
    num_positional: int
    num_arguments: int


class Facts(NamedTuple):
    """What the rules below ask of a module. Each is read once: there are hundreds, and trees are large."""

    num_lines: int
    docstring: str | None
    imports: tuple[str, ...]  # whole names, lazy imports included
    functions: tuple[Function, ...]
    made: tuple[tuple[str, int, int], ...]  # classes that are called: name, unnamed values, line
    reads_json: bool


@functools.cache
def facts(name: str) -> Facts:
    source = MODULES[name].read_text("utf-8")
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    return Facts(
        num_lines=len(source.splitlines()),
        docstring=ast.get_docstring(tree),
        imports=tuple(module for node in nodes for module in imported(name, node)),
        functions=tuple(
            function(node)
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        made=tuple(
            (node.func.id, len(node.args), node.lineno)
            for node in nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id.lstrip("_")[:1].isupper()
        ),
        reads_json=any(isinstance(node, ast.Attribute) and node.attr == "json" for node in nodes),
    )


def imported(name: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{name}: imports are absolute"
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            yield whole if whole in MODULES else str(node.module)


def function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    has_names = not any(
        ast.unparse(decorator).startswith(WITHOUT_NAMES) for decorator in node.decorator_list
    )
    found = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    num_positional = sum(arg not in ("self", "cls") for arg in found) if has_names else 0
    num_named = len(node.args.kwonlyargs) if has_names else 0
    num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return Function(node.name, num_lines, num_positional, num_positional + num_named)


def is_under(name: str, room: str) -> bool:
    # "segue" itself stands for the package's own file only, not for everything in it.
    return name == room or (room != "segue" and name.startswith(room + "."))


def test_rooms_keep_to_themselves() -> None:
    for name in MODULES:
        room = max((room for room in LAW if is_under(name, room)), key=len, default=None)
        if room is None:
            assert any(is_under(name, builder) for builder in BUILDERS)
            continue
        ours = {module for module in facts(name).imports if module.split(".")[0] == "segue"}
        strangers = {each for each in ours if not any(is_under(each, may) for may in LAW[room])}
        assert strangers == set(), f"{name} imports {strangers}"


def test_libraries_have_one_owner() -> None:
    for name in MODULES:
        for module in facts(name).imports:
            library = module.split(".")[0]
            owners = OWNERS.get(library)
            assert owners is None or name.startswith(owners), f"{name} imports {module}"
            for room, banned in BANNED.items():
                assert not (is_under(name, room) and library in banned), f"{name} imports {module}"


def test_what_is_imported_is_installed_with_segue() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {Requirement(each).name.replace("-", "_") for each in project["dependencies"]}
    known = sys.stdlib_module_names | needed | {"segue"}
    for name in MODULES:
        strangers = {module.split(".")[0] for module in facts(name).imports} - known
        wrong = {each for each in strangers if not is_under(name, OPTIONAL.get(each, ""))}
        assert wrong == set(), f"{name} imports {wrong}, which pyproject.toml does not ask for"


def test_the_engine_reads_json_only_in_constraints() -> None:
    readers = {
        name for name in MODULES if facts(name).reads_json and is_under(name, "segue.engine")
    }
    assert {name for name in readers if not is_under(name, JSON_READERS)} == set()


def parents(name: str) -> set[str]:
    """The dialects that this one builds on. One that is too large for a file is a package: one dialect."""
    room = "segue.dialects."
    siblings = {
        module.removeprefix(room).partition(".")[0]
        for module in facts(name).imports
        if module.startswith(room)
    }
    return siblings - DIALECT_ROOMS - {own_part(name)}


def own_part(name: str) -> str:
    return name.removeprefix("segue.dialects.").partition(".")[0]


def test_a_dialect_has_at_most_one_parent() -> None:
    for name in MODULES:
        if name.startswith("segue.dialects."):
            most = 0 if own_part(name) in DIALECT_ROOMS else 1
            assert len(parents(name)) <= most, f"{name} builds on {parents(name)}"


def test_files_of_tests_stay_small() -> None:
    lengths = {
        path: len(path.read_text("utf-8").splitlines())
        for path in Path(__file__).parent.rglob("*.py")
    }
    assert not {str(path): length for path, length in lengths.items() if length > MAX_LINES}


def test_files_are_read_in_an_encoding_that_is_named() -> None:
    """Else it is the locale's: documents are in UTF-8 wherever the tests run."""
    ours = [*MODULES.values(), *Path(__file__).parent.rglob("*.py")]
    assert not [path for path in ours if ".read_text" + "()" in path.read_text("utf-8")]


def test_files_and_functions_stay_small() -> None:
    lengths = {name: facts(name).num_lines for name in MODULES}
    assert not {name: length for name, length in lengths.items() if length > MAX_LINES}
    functions = [(name, each) for name in MODULES for each in facts(name).functions]
    assert [pair for pair in functions if pair[1].num_lines > MAX_FUNCTION_LINES] == []


def test_functions_take_few_arguments() -> None:
    functions = [(name, each) for name in MODULES for each in facts(name).functions]
    assert [pair for pair in functions if pair[1].num_positional > MAX_POSITIONAL] == []
    assert [pair for pair in functions if pair[1].num_arguments > MAX_ARGUMENTS] == []


def test_values_are_made_by_keyword_where_they_are_many() -> None:
    """Of classes only: what a table such as `pick` takes one after another needs no names."""
    for name in MODULES:
        for made, num_values, line in facts(name).made:
            assert num_values <= MAX_POSITIONAL, f"{name}: {made}, line {line}"


def test_folders_stay_small() -> None:
    counts = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    assert {str(folder) for folder, count in counts.items() if count > MAX_MODULES} == set()


def test_every_room_says_what_it_is() -> None:
    rooms = [name for name in MODULES if MODULES[name].name == "__init__.py"]
    assert [name for name in rooms if not facts(name).docstring] == []
