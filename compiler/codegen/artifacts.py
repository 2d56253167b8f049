"""Readable artifacts of compiled code: LLVM IR, disassembly with node names, one object for the whole model."""

from collections.abc import Mapping, Sequence

from stepwell.codegen.objects import compile_unit, make_engine_context, whole_module
from stepwell.dialects.core.mlir import ir, llvm
from stepwell.dialects.support.errors import CodegenError
from stepwell.runtime.openmp import openmp


def llvm_ir(module: ir.Module) -> str:
    """The LLVM IR of a module in the llvm dialect."""
    text: str | None = llvm.translate_module_to_llvmir(module.operation)
    if text is None:
        raise CodegenError("the module cannot be translated to LLVM IR")
    return text


def assembly(objects: Mapping[str, bytes], nodes: Sequence[str], lines: Mapping[str, Sequence[int]]) -> str:
    """The disassembly of the real objects, the ONNX node of each stretch as a comment; `nodes` and `lines` as in `disassemble`."""
    from stepwell.codegen.disassemble import disassemble  # here, because the libraries that it takes are of no use to anybody else

    return disassemble(objects, nodes, lines)


def whole_object(module: ir.Module) -> bytes:
    """One object that holds @main and every kernel."""
    libraries = tuple(runtime.path for runtime in (openmp(),) if runtime is not None)
    return compile_unit(whole_module(module), make_engine_context(), libraries)
