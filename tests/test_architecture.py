"""The import law, as a table. A room may use what its row says and nothing else of ours."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

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
)
_BELOW_REQUEST = ("segue.engine.sampling", "segue.engine.constraints", "segue.engine.infill")
_REQUEST = (*_BASE, "segue.engine.seam", "segue.engine.tokens", *_BELOW_REQUEST)
LAW: dict[str, tuple[str, ...]] = {
    "segue.types": (),
    "segue.errors": (),
    "segue.bounds": (),
    "segue.exact_math": (),
    "segue.fingerprint": (),
    "segue.detokenizer": (),
    "segue.logs": (),
    "segue.cpus": (),
    "segue.processes.shared_numbers": (),
    "segue.processes.sharing": (),
    "segue.setting": ("segue.errors",),
    "segue.config": ("segue.setting", "segue.errors", "segue.cpus"),
    "segue.metrics": ("segue.types", "segue.processes.shared_numbers"),
    "segue.dialects": (*_BASE, "segue.dialects"),
    # Inside the engine: process → scheduling → request → {infill, constraints, sampling} → seam.
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
    "segue.engine.process": (*_BASE, "segue.logs", "segue.cpus", "segue.engine"),
    "segue.server": (
        "segue",
        *_BASE,
        "segue.dialects",
        "segue.engine.seam",
        "segue.metrics",
        "segue.processes.sharing",
        "segue.processes.shared_numbers",
        "segue.server",
    ),
    # Several server processes over one engine: the parent, and the models as one of them sees them.
    "segue.processes": (
        *_BASE,
        "segue.engine.seam",
        "segue.engine.process",
        "segue.processes",
    ),
    "segue.runners": (*_BASE, "segue.cpus", "segue.engine.seam", "segue.models", "segue.runners"),
    # Another engine, the same events: everything of a request, but no scheduler and no worker.
    "segue.distributed": (
        *_REQUEST,
        "segue.engine.request",
        "segue.engine.process.mailbox",
        "segue.engine.process.supervisor",
        "segue.models.model_defaults",
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
        "segue.engine.process.hosted",
        "segue.engine.process.spawning",
        "segue.models",
    ),
    "segue.models": (*_BASE, "segue.models"),
    "segue.bench": (
        *_BASE,
        "segue.bench",
        "segue.config",
        "segue.cpus",
        "segue.engine",
        "segue.models",
        "segue.runners",
    ),
    "segue.library": (
        *_BASE,
        "segue.config",
        "segue.assembly",
        "segue.engine.seam",
        "segue.engine.process.fleet",
        "segue.models.progress",
        "segue.dialects",
        "segue.library",
    ),
    "segue.machine": (),
    "segue.commands": (
        "segue",
        *_BASE,
        "segue.setting",
        "segue.config",
        "segue.cpus",
        "segue.machine",
        "segue.models",
        "segue.assembly",
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
    "numba": ("segue.runners.cpu",),
    "xllamacpp": ("segue.runners.llama",),
    "vllm": ("segue.distributed",),
    "torch": ("segue.distributed",),
    "jinja2": ("segue.dialects.templates",),
    "llguidance": ("segue.engine.constraints",),
    "opentelemetry": ("segue.server.tracing",),
    "starlette": ("segue.server", "segue.cli"),
    "uvicorn": ("segue.server", "segue.cli"),
    "click": ("segue.cli", "segue.serving", "segue.commands", "segue.bench"),
    "pickle": (),
}

# Nothing of the wire reaches the engine. JSON is read there only where it is a constraint: a schema.
BANNED: dict[str, tuple[str, ...]] = {"segue.engine": ("json", "http", "starlette", "uvicorn")}
JSON_READERS = "segue.engine.constraints"

# The only modules without a row in the law: they build the concretes and run them.
BUILDERS = {"segue", "segue.__main__", "segue.cli", "segue.serving", "segue.assembly"}

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


def imports(name: str) -> Iterator[str]:
    """Every module imported anywhere in this one, whole names, lazy imports included."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else str(node.module)


def is_under(name: str, room: str) -> bool:
    # "segue" itself stands for the package's own file only, not for everything in it.
    return name == room or (room != "segue" and name.startswith(room + "."))


@pytest.mark.parametrize("name", MODULES)
def test_rooms_keep_to_themselves(name: str) -> None:
    room = max((room for room in LAW if is_under(name, room)), key=len, default=None)
    if room is None:
        assert name in BUILDERS
        return
    ours = {module for module in imports(name) if module.split(".")[0] == "segue"}
    assert {
        module for module in ours if not any(is_under(module, may) for may in LAW[room])
    } == set()


@pytest.mark.parametrize("name", MODULES)
def test_libraries_have_one_owner(name: str) -> None:
    for module in imports(name):
        library = module.split(".")[0]
        owners = OWNERS.get(library)
        assert owners is None or name.startswith(owners), f"{name} imports {module}"
        for room, banned in BANNED.items():
            assert not (is_under(name, room) and library in banned), f"{name} imports {module}"


@pytest.mark.parametrize("name", [name for name in MODULES if is_under(name, "segue.engine")])
def test_the_engine_reads_json_only_in_constraints(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text())
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "json"]
    assert not uses or is_under(name, JSON_READERS)


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("segue.dialects.")])
def test_a_dialect_has_at_most_one_parent(name: str) -> None:
    room = "segue.dialects."
    # A dialect that is too large for a file is a package; its modules are one dialect.
    siblings = {
        module.removeprefix(room).partition(".")[0]
        for module in imports(name)
        if module.startswith(room)
    }
    own = name.removeprefix(room).partition(".")[0]
    parents = siblings - DIALECT_ROOMS - {own}
    is_part = own in DIALECT_ROOMS
    assert len(parents) <= (0 if is_part else 1)


def test_files_of_tests_stay_small() -> None:
    lengths = {
        path: len(path.read_text().splitlines()) for path in Path(__file__).parent.rglob("*.py")
    }
    assert not {str(path): length for path, length in lengths.items() if length > MAX_LINES}


@pytest.mark.parametrize("name", MODULES)
def test_files_and_functions_stay_small(name: str) -> None:
    source = MODULES[name].read_text()
    assert len(source.splitlines()) <= MAX_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert num_lines <= MAX_FUNCTION_LINES, f"{node.name} has {num_lines} lines"


def has_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not any(
        ast.unparse(decorator).startswith(WITHOUT_NAMES) for decorator in function.decorator_list
    )


@pytest.mark.parametrize("name", MODULES)
def test_functions_take_few_arguments(name: str) -> None:
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and has_names(node):
            found = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
            positional = [arg for arg in found if arg not in ("self", "cls")]
            num_named = len(node.args.kwonlyargs)
            assert len(positional) <= MAX_POSITIONAL, f"{node.name}{tuple(positional)}"
            assert len(positional) + num_named <= MAX_ARGUMENTS, f"{node.name} takes too many"


@pytest.mark.parametrize("name", MODULES)
def test_values_are_made_by_keyword_where_they_are_many(name: str) -> None:
    """Of classes only: what a table such as `pick` takes one after another needs no names."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            made = node.func.id
            is_class = made.lstrip("_")[:1].isupper()
            assert not is_class or len(node.args) <= MAX_POSITIONAL, f"{made}, line {node.lineno}"


def test_folders_stay_small() -> None:
    counts = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    assert {str(folder) for folder, count in counts.items() if count > MAX_MODULES} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if MODULES[name].name == "__init__.py"])
def test_every_room_says_what_it_is(name: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[name].read_text()))
