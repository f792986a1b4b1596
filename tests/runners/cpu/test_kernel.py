from typing import Any

from segue.runners.cpu.kernel import INT, compiled


@compiled
def _sum(x: Any, y: Any) -> Any:
    return x + y


@compiled
def _sums(x: Any) -> Any:
    return _sum(x, 1) + _sum(2, 3) + _sum(x, x)


def test_a_kernel_is_compiled_once_whatever_constants_it_is_given() -> None:
    made: Any = _sums
    made.compile((INT,))
    assert [tuple(signature) for signature in _sum.signatures] == [(INT, INT)]  # type: ignore[attr-defined]
