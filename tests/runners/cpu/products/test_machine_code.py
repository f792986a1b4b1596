"""How IR becomes code: what one module is compiled with says nothing about the next."""

import llvmlite.binding as llvm
from llvmlite import ir

from segue.runners.cpu.emit import i64, load, loop, number, store
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.processor import this_target


def strided() -> str:
    """A loop with two addresses that step beside each other: code differs by whether LLVM seeks one step of both."""
    module = ir.Module("strided")
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] * 4), "strided")
    source, target, stride, count = function.args
    b = ir.IRBuilder(function.append_basic_block())
    with loop(b, count) as each:
        step = b.mul(each.index, stride)
        store(b, load(b, b.add(source, step)), b.add(target, b.mul(step, number(3))))
    b.ret_void()
    return str(module)


def test_code_does_not_depend_on_what_was_compiled_before() -> None:
    target, text = this_target({}), strided()
    first = machine_code.compile_text(text, target)
    quick = machine_code.compile_quickly(text, target)
    assert machine_code.compile_text(text, target) == first
    assert machine_code.compile_quickly(text, target) == quick
    is_known = llvm.llvm_version_info[0] in machine_code._KNOWING
    assert (quick != first) == (is_known and target.triple.startswith("x86_64"))
