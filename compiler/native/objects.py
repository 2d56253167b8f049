"""Split an llvm-dialect module into units of one function each, and compile a unit to an object."""

import ctypes
import io
import os
import re
import tempfile
from dataclasses import dataclass

from stepwell.dialects.errors import CodegenError
from stepwell.dialects.mlir import ExecutionEngine, diagnostics, ir

_REFERENCE = re.compile(r'@(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))')
_KEPT_ON_DECLARATIONS = ("sym_name", "function_type", "CConv", "arg_attrs", "res_attrs", "memory_effects", "passthrough")
# An address for callees that live in other objects: the engine wants one, and nothing is ever called through it.
_NOWHERE = 0x1000


@dataclass(frozen=True)
class Unit:
    """What one object is compiled from: plain data, so that it can be hashed, kept and sent to another process."""

    name: str
    """The function that the object defines."""
    bytecode: bytes
    """The module as MLIR bytecode, locations included: the function, its private helpers and constants, declarations of its callees."""
    externals: tuple[str, ...]
    """The functions that are declared only."""


def split_module(module: ir.Module) -> list[Unit]:
    """One unit for each function with external linkage that `module` (llvm dialect) defines, in the order of the module.

    Private functions and constants go along with each of their users. Raises CodegenError for what cannot be in several objects
    (a variable that several functions share) and for operations that have no place in the llvm dialect.
    """
    symbols = {_symbol(op.operation): op.operation for op in module.body.operations}
    units = [(name, _closure(name, symbols)) for name, op in symbols.items() if _is_unit(op)]
    owners: dict[str, str] = {}
    for name, used in units:
        for other in used:
            if _is_variable(symbols[other]) and owners.setdefault(other, name) != name:
                raise CodegenError(f"the variable @{other} is used by @{owners[other]} and by @{name}: variables cannot be in two objects")
    return [_unit(module, name, used, symbols) for name, used in units]


def whole_module(module: ir.Module, name: str = "main") -> Unit:
    """The module as one unit, to have all of it in one object."""
    symbols = {_symbol(op.operation): op.operation for op in module.body.operations}
    externals = tuple(symbol for symbol, op in symbols.items() if _is_function(op) and not _is_defined(op))
    return Unit(name, _bytecode(module), externals)


def _symbol(op: ir.Operation) -> str:
    if op.name not in ("llvm.func", "llvm.mlir.global"):
        raise CodegenError(f"'{op.name}' at {op.location}: expected only llvm.func and llvm.mlir.global at the top of the module")
    return ir.StringAttr(op.attributes["sym_name"]).value


def _is_function(op: ir.Operation) -> bool:
    return op.name == "llvm.func"


def _is_defined(op: ir.Operation) -> bool:
    return len(op.regions[0].blocks) > 0


def _is_external(op: ir.Operation) -> bool:
    return "linkage" not in op.attributes or str(op.attributes["linkage"]) == "#llvm.linkage<external>"


def _is_unit(op: ir.Operation) -> bool:
    return _is_function(op) and _is_defined(op) and _is_external(op)


def _is_variable(op: ir.Operation) -> bool:
    return op.name == "llvm.mlir.global" and "constant" not in op.attributes


def _references(op: ir.Operation) -> set[str]:
    # Printing is done in C++ and takes a tenth of the time of a walk in Python; constants are elided.
    text = str(op.get_asm(large_elements_limit=8, assume_verified=True, use_local_scope=True))
    return {quoted or plain for quoted, plain in _REFERENCE.findall(text)}


def _closure(name: str, symbols: dict[str, ir.Operation]) -> list[str]:
    """The symbols that the unit of `name` has to hold beside it, through private helpers and constants, in the module's order."""
    found: set[str] = set()
    work = [name]
    while work:
        used = _references(symbols[work.pop()]) & symbols.keys()
        for other in used - found - {name}:
            found.add(other)
            if not _is_function(symbols[other]) or not _is_external(symbols[other]):
                work.append(other)
    return [symbol for symbol in symbols if symbol in found]


def _unit(module: ir.Module, name: str, used: list[str], symbols: dict[str, ir.Operation]) -> Unit:
    externals: list[str] = []
    with module.context, module.operation.location:
        part = ir.Module.create()
        for attribute in module.operation.attributes:
            if attribute.startswith("llvm."):
                part.operation.attributes[attribute] = module.operation.attributes[attribute]
        with ir.InsertionPoint(part.body):
            for other in used:
                op = symbols[other]
                if _is_function(op) and (_is_external(op) or not _is_defined(op)):
                    _declare(op)
                    externals.append(other)
                else:
                    _make_private(op.clone())
            function = symbols[name].clone()
            # The engine adds a wrapper that calls the function: a second copy of its body in there would be waste.
            function.attributes["no_inline"] = ir.UnitAttr.get()
        return Unit(name, _bytecode(part), tuple(externals))


def _declare(op: ir.Operation) -> None:
    attributes = {key: op.attributes[key] for key in _KEPT_ON_DECLARATIONS if key in op.attributes}
    # Not the location of the definition: a subprogram's definition may not be attached to a declaration.
    ir.Operation.create("llvm.func", attributes=attributes, regions=1)


def _make_private(op: ir.Operation) -> None:
    op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")


def _bytecode(module: ir.Module) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def make_engine_context() -> ir.Context:
    """A context for `compile_unit`: the llvm dialect needs none of ours."""
    context = ir.Context()
    context.enable_multithreading(False)
    return context


def compile_unit(unit: Unit, context: ir.Context, libraries: tuple[str, ...] = ()) -> bytes:
    """The object of `unit`, for the CPU of this machine, at the highest optimisation level. Holds the GIL.

    `libraries` are shared libraries whose functions the code may call (OpenMP's). Raises CodegenError naming the function.
    """
    with diagnostics(context) as lines:
        try:
            module = ir.Module.parse(unit.bytecode, context)
            # Looked up first, because the engine crashes when it is asked for the object of nothing.
            if not any(_symbol(op.operation) == unit.name and _is_defined(op.operation) for op in module.body.operations):
                raise CodegenError(f"@{unit.name} cannot be translated to LLVM: its module does not define it")
            with context:
                engine = ExecutionEngine(module, opt_level=3, shared_libs=list(libraries))
        except (ir.MLIRError, RuntimeError) as error:
            raise CodegenError(f"@{unit.name} cannot be translated to LLVM: {'; '.join(lines) or error}") from None
    for name in unit.externals:
        engine.raw_register_runtime(name, ctypes.c_void_p(_NOWHERE))
    # Compiles. If a function is missing then the lookup fails, but after that; it is the loader that says which one.
    engine.raw_lookup(unit.name)
    data = _dump(engine)
    if not data:
        raise CodegenError(f"@{unit.name}: LLVM emitted no object")
    return data


def _dump(engine: ExecutionEngine) -> bytes:
    handle, path = tempfile.mkstemp(suffix=".o")
    os.close(handle)
    try:
        engine.dump_to_object_file(path)
        with open(path, "rb") as file:
            return file.read()
    finally:
        os.unlink(path)
