"""Attention of one flavour and type of KV, in a process of its own: both are decided when modules are read."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np

from segue.runners.cpu.compile import _said
from segue.runners.cpu.products.processor import FLAVOURS, Flavour, target_of
from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.runners.cpu.step.attention.loading import kv_type
from segue.runners.cpu.step.attention.tiles import is_wide
from tests.runners.cpu.step.attention_alone import Text, attended
from tests.runners.cpu.step.kept_numbers import KEPT
from tests.runners.cpu.translation.built import built

_CHANGES: tuple[dict[str, object], ...] = (
    {},
    {"window": 100, "cap": 3.0, "sinks": np.array([-100.0, 2.0, 100.0], np.float32)},
    {"slopes": np.array([20.0, 2.0**-2, 2.0**-8], np.float32)},
)


def asked(flavour: Flavour, own_type: KvType = "f16") -> str:
    """What `told` says in a process whose modules know this flavour and this type of KV."""
    environ = {**os.environ, **_said(target_of(flavour), own_type)}
    command = [sys.executable, "-m", __name__, flavour.name]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def told(flavour: Flavour) -> str:
    """The digest of what attention gives, which is near to what the definition says."""
    assert is_wide == (flavour.lanes >= 16)
    kernel, digest = built(attended, 1, target_of(flavour)), hashlib.sha256()
    for positions in (1, 2, 5, 9, 32):  # few rows, and tiles, whole and not
        for changes in _CHANGES:
            some = replace(_text(positions), **changes)  # type: ignore[arg-type]
            found = some.computed(kernel)
            np.testing.assert_allclose(found, some.defined(), atol=3e-6)
            digest.update(found.tobytes())
    return digest.hexdigest()


def _text(positions: int) -> Text:
    """With columns left over beside whole vectors of wide registers."""
    random = np.random.default_rng(positions)
    keys, values = (KEPT[kv_type](random.standard_normal((600, 48))) for _ in range(2))
    queries = (random.standard_normal((positions, 3, 48)) / 2).astype(np.float32)
    return Text(keys, values, queries)


if __name__ == "__main__":
    (own,) = (flavour for flavour in FLAVOURS if flavour.name == sys.argv[1])
    print(told(own))
