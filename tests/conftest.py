from pathlib import Path

import pytest

from segue import config
from segue.models import names, sources


@pytest.fixture(scope="session")
def embedded_gguf() -> Path:
    """The embedded default model, fetched into the user's cache the first time."""
    return sources.fetch(names.parse("default"), config.load({}).cache_dir)
