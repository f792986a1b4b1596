"""A thread that takes denormal numbers for 0 cannot promise its bits, and knows it."""

import ctypes
import platform
import threading
from collections.abc import Callable

import pytest

from segue import exact_math

llvm = pytest.importorskip("llvmlite.binding")

# What sets the processor's flags: x86 flush-to-zero, x86 denormals-are-zero, ARM flush-to-zero.
_X86 = """
define void @set() {
  %place = alloca i32
  store i32 FLAGS, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
_ARM = """
define void @set() {
  call void @llvm.aarch64.set.fpcr(i64 FLAGS)
  ret void
}
declare void @llvm.aarch64.set.fpcr(i64)
"""
_KINDS = {
    "x86_64": [_X86.replace("FLAGS", str(0x1F80 | flag)) for flag in (0x8000, 0x0040)],
    "aarch64": [_ARM.replace("FLAGS", str(1 << 24))],
}
_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}.get(
    platform.machine().lower(), platform.machine()
)


def compiled(text: str) -> Callable[[], None]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None)(engine.get_function_address("set"))
    call.engine = engine  # type: ignore[attr-defined]
    return call


def in_a_thread(*calls: Callable[[], object]) -> list[object]:
    """The processor's flags are a thread's own, so they end with it."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.extend(call() for call in calls))
    thread.start()
    thread.join()
    return results


def test_here_they_are_kept() -> None:
    assert exact_math.keeps_denormals()


@pytest.mark.parametrize("text", _KINDS.get(_MACHINE, []))
def test_flags_of_the_processor_are_noticed(text: str) -> None:
    assert in_a_thread(compiled(text), exact_math.keeps_denormals) == [None, False]
    assert exact_math.keeps_denormals()
