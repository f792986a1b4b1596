"""The import law, as a table. A room may use what its row says and nothing else of ours."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_LINES = 400
MAX_FUNCTION_LINES = 60

# Room (longest match) → what of ours it may import; a name stands for everything under it.
LAW: dict[str, tuple[str, ...]] = {
    "segue.types": (),
    "segue.errors": (),
    "segue.config": ("segue.errors", "segue.cpus"),
    "segue.cpus": (),
    "segue.metrics": ("segue.types",),
    "segue.dialects": ("segue.types", "segue.errors", "segue.dialects"),
    "segue.server": (
        "segue",
        "segue.types",
        "segue.errors",
        "segue.dialects",
        "segue.engine.seam",
        "segue.metrics",
        "segue.server",
    ),
    "segue.engine": ("segue.types", "segue.errors", "segue.logs", "segue.engine"),
    "segue.runners": (
        "segue.types",
        "segue.errors",
        "segue.cpus",
        "segue.engine.seam",
        "segue.models.gguf",
        "segue.models.progress",
        "segue.models.requantise",
        "segue.runners",
    ),
    # Another engine tells the same story: everything from a request to its events, but no scheduler or worker.
    "segue.distributed": (
        "segue.types",
        "segue.errors",
        "segue.engine.constraint",
        "segue.engine.grammar_text",
        "segue.engine.job",
        "segue.engine.prepare",
        "segue.engine.sampler",
        "segue.engine.score",
        "segue.engine.seam",
        "segue.engine.sequence",
        "segue.engine.supervisor",
        "segue.engine.token_rules",
        "segue.engine.tokens",
        "segue.distributed",
    ),
    "segue.models": ("segue.types", "segue.errors", "segue.models"),
    "segue.logs": (),
    "segue.bench": (
        "segue.bench",
        "segue.config",
        "segue.cpus",
        "segue.engine",
        "segue.errors",
        "segue.models",
        "segue.runners",
        "segue.types",
    ),
    "segue.commands": (
        "segue.types",
        "segue.errors",
        "segue.config",
        "segue.assembly",
        "segue.engine.sampler",
        "segue.engine.seam",
        "segue.models.progress",
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
    "openvino": ("segue.runners.openvino",),
    "vllm": ("segue.distributed",),
    "torch": ("segue.distributed",),
    "jinja2": ("segue.dialects.chat_template",),
    "llguidance": ("segue.engine.constraint",),
    "starlette": ("segue.server", "segue.cli"),
    "uvicorn": ("segue.server", "segue.cli"),
    "click": ("segue.cli", "segue.commands", "segue.bench"),
    "pickle": (),
}

# Nothing of the wire reaches the engine.
BANNED: dict[str, tuple[str, ...]] = {"segue.engine": ("json", "http", "starlette", "uvicorn")}

# The only modules without a row in the law: they build the concretes and run them.
BUILDERS = {"segue", "segue.__main__", "segue.cli", "segue.assembly"}

# What every dialect may share. The others in the room are dialects: each may have one parent.
DIALECT_PARTS = {
    "base",
    "chat_logprobs",
    "chat_template",
    "constraint_fields",
    "duration",
    "fields",
    "gap_fields",
    "go_template",
    "kinds",
    "logprobs",
    "prompt_kinds",
    "reference",
    "sampler_fields",
    "sampling_reference",
    "tally",
    "text_completion",
    "timings",
    "token_rows",
    "tokens",
    "tools",
}


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
    parents = siblings - DIALECT_PARTS - {own}
    is_part = own in DIALECT_PARTS
    assert len(parents) <= (0 if is_part else 1)


@pytest.mark.parametrize("name", MODULES)
def test_files_and_functions_stay_small(name: str) -> None:
    source = MODULES[name].read_text()
    assert len(source.splitlines()) <= MAX_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert num_lines <= MAX_FUNCTION_LINES, f"{node.name} has {num_lines} lines"
