import ctypes
import mmap
import platform
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from llvmlite import ir

from segue.errors import Incompatible
from segue.runners.cpu.emit import FLOATS, fma
from segue.runners.cpu.products import kernels, machine_code, processor
from segue.runners.cpu.products.formats import FORMATS
from tests.runners.cpu.conftest import BY_NAME

# What each flavour is there for, as its assembly has it.
INSTRUCTIONS = {
    "avx512vnni": r"vpdpbusd\s.*%zmm",
    "avx512": r"vpmaddubsw\s.*%zmm",
    "avxvnni": r"vpdpbusd\s.*%ymm",
    "avx2": r"vpmaddubsw\s.*%ymm",
    "sse4": r"\tpmaddubsw\s.*%xmm",
    "i8mm": r"smmla\s",
    "dotprod": r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\[\d\]",
    "neon": r"smlal2\s",
    "generic": r".",
}


def test_this_machine_has_a_flavour_and_the_best_one_is_taken() -> None:
    best, *_ = processor.possible()
    assert processor.this_target({}).flavour is best
    assert processor.possible()[-1].name == "generic"


@pytest.mark.parametrize("flavour", processor.possible(), ids=lambda flavour: flavour.name)
def test_a_flavour_can_be_forced(flavour: processor.Flavour) -> None:
    assert processor.this_target({"SEGUE_CPU": flavour.name.upper()}).flavour is flavour


def test_what_cannot_run_is_refused_and_what_can_is_named() -> None:
    with pytest.raises(Incompatible, match=r"this processor can run .*generic"):
        processor.this_target({"SEGUE_CPU": "abacus"})


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({16: 0, 26: 0}, []),
        ({16: 1 << 20, 26: 0}, ["dotprod"]),
        ({16: 1 << 20 | 0xFF, 26: 1 << 13}, ["dotprod", "i8mm"]),
        ({16: ~(1 << 20), 26: ~(1 << 13)}, []),
    ],
)
def test_what_linux_tells_of_an_arm_processor(
    monkeypatch: pytest.MonkeyPatch, told: dict[int, int], found: list[str]
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(processor, "_auxiliary", told.__getitem__)
    assert processor._arm_instructions() == found


@pytest.mark.parametrize("has", [[], ["dotprod"], ["dotprod", "i8mm"]])
def test_what_macos_tells_of_an_arm_processor(
    monkeypatch: pytest.MonkeyPatch, has: list[str]
) -> None:
    words = {b"FEAT_DotProd": "dotprod", b"FEAT_I8MM": "i8mm"}
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(processor, "_has_apple", lambda feature: words[feature] in has)
    assert processor._arm_instructions() == has


@pytest.mark.parametrize(("code", "value", "has"), [(0, 1, True), (0, 0, False), (-1, 1, False)])
def test_macos_is_asked_by_the_name_of_the_feature(
    monkeypatch: pytest.MonkeyPatch, code: int, value: int, has: bool
) -> None:
    def sysctlbyname(name: bytes, place: Any, size: Any, *_: object) -> int:
        assert name == b"hw.optional.arm.FEAT_I8MM"
        assert size._obj.value == 4
        place._obj.value = value
        return code

    library = SimpleNamespace(sysctlbyname=sysctlbyname)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    assert processor._has_apple(b"FEAT_I8MM") is has


def test_a_system_that_cannot_be_asked_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    assert not processor._has_apple(b"FEAT_I8MM")
    assert processor._auxiliary(16) == 0


@pytest.mark.skipif(platform.system() != "Linux", reason="Linux has it")
def test_the_kernel_can_be_asked() -> None:
    page_size = 6
    assert processor._auxiliary(page_size) == mmap.PAGESIZE


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_every_flavour_compiles_to_its_instructions(name: str) -> None:
    target = processor.target_of(BY_NAME[name])
    code = machine_code.assembly(kernels.module(FORMATS["Q8_0"], target), target)
    assert re.search(INSTRUCTIONS[name], code)


@pytest.mark.parametrize(
    ("cpu", "has"), [("nehalem", False), ("sandybridge", False), ("bdver2", True)]
)
def test_who_has_no_fma_calls_no_library_for_it(cpu: str, has: bool) -> None:
    """As a step has it: LLVM would call the C library's, lane by lane. A Piledriver has FMA, but not AVX2."""
    sse4 = processor.target_of(BY_NAME["sse4"])
    target = replace(sse4, cpu=cpu, features="+avx,+fma" if has else "")
    assert target.has_fma is has
    machine = machine_code._machine(target)
    code = fused_code(machine, target.has_fma)
    assert ("vfmadd" in code) is has
    assert "fmaf" not in code
    assert ("cvtps2pd" in code) is not has


def fused_code(machine: Any, has_fma: bool) -> str:
    """The assembly of a fused multiply-add of vectors, as it is emitted."""
    module = ir.Module("fused")
    module.triple = machine.triple
    function = ir.Function(module, ir.FunctionType(FLOATS, [FLOATS] * 3), "fused")
    b = ir.IRBuilder(function.append_basic_block())
    b.ret(fma(b, *function.args))
    made: str = machine.emit_assembly(machine_code.prepared(str(module), machine, has_fma))
    return made


def test_every_flavour_is_looked_at() -> None:
    assert set(INSTRUCTIONS) == set(BY_NAME)


def test_no_product_is_fused_or_reordered_by_the_compiler() -> None:
    for flavour in processor.FLAVOURS:
        target = processor.target_of(flavour)
        text = str(kernels.module(FORMATS["Q4_K"], target))
        assert not re.search(r"\b(fast|reassoc|contract|nnan|nsz)\b", text)
