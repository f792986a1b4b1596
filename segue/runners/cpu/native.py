"""Cached code in this process: linked by LLVM, called through ctypes, which releases the GIL unless told otherwise."""

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from segue.runners.cpu.products.processor import Target

_engines: list[Any] = []  # code lives as long as the process


def link(code: bytes, names: list[str], target: Target) -> dict[str, int]:
    """The addresses of an object file's functions."""
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
    _engines.append(engine)
    return {name: engine.get_function_address(name) for name in names}


def kernel(address: int, num_ints: int, keeps_gil: bool = False) -> Callable[..., int]:
    """A kernel at this address as a Python function of `num_ints` integers.

    `keeps_gil`: for a kernel so short that another thread must not take the interpreter meanwhile.
    """
    signature = ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE
    return signature(*[ctypes.c_int64] * (1 + num_ints))(address)
