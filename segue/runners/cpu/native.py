"""Cached code in this process: linked by LLVM, called through ctypes, which releases the GIL unless told otherwise."""

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from segue.runners.cpu.products.processor import Target

_engines: dict[bytes, Any] = {}  # by the digest of their code, which lives as long as the process


def link(code: bytes, names: list[str], target: Target) -> dict[str, int]:
    """The addresses of an object file's functions. It is linked once, for all models in this process."""
    digest = hashlib.sha256(code).digest()
    engine = _engines.get(digest)
    if engine is None:
        engine = _engines[digest] = _engine(code, target)
    return {name: engine.get_function_address(name) for name in names}


def _engine(code: bytes, target: Target) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        jit=True, codemodel="jitdefault"
    )
    is_arm = target.triple.startswith(("aarch64", "arm64"))
    # On ARM, LLVM's default memory manager may put sections too far apart.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=is_arm)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def kernel(address: int, num_ints: int, keeps_gil: bool) -> Callable[..., int]:
    """A kernel at this address as a Python function of `num_ints` integers.

    `keeps_gil`: for a kernel so short that another thread must not take the interpreter meanwhile.
    """
    signature = ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE
    return signature(*[ctypes.c_int64] * (1 + num_ints))(address)
