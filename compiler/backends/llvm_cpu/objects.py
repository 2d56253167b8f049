"""Split a module into units of one function each, and compile a unit to an object."""

import collections
import ctypes
import io
import re
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from stepwell.dialects.core.locations import renumber_nodes, strip_node_names
from stepwell.dialects.core.mlir import ExecutionEngine, diagnostics, ir, make_context
from stepwell.dialects.sched.dialect import Sched
from stepwell.dialects.support.errors import CodegenError, PassError
from stepwell.dialects.support.files import nameless_file
from stepwell.dialects.target.description import TRIPLE, Target
from stepwell.dialects.target.dialect import TargetInfo
from stepwell.dialects.target.host import host

_REFERENCE = re.compile(r'@(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))')
_FUNCTIONS = {"llvm.func": "no_inline", "func.func": "llvm.no_inline"}  # maps the op to the attribute that keeps it from being inlined
_VARIABLES = ("llvm.mlir.global", "memref.global")
_LOWERED = ("llvm.func", "llvm.mlir.global")
_KEPT_ON_DECLARATIONS = ("sym_name", "sym_visibility", "function_type", "CConv", "arg_attrs", "res_attrs", "memory_effects", "passthrough")
# An address for callees in other objects: the engine needs one, and nothing is ever called through it.
_NOWHERE = 0x1000


@dataclass(frozen=True)
class Unit:
    """The input of one object: plain data, so that it can be hashed, stored and sent to another process."""

    name: str
    """The function that the object defines."""
    bytecode: bytes
    """The module as MLIR bytecode, with locations: the function, its private helpers and constants, declarations of its callees."""
    pipeline: str = ""
    """The remaining passes down to the llvm dialect."""
    target: Target | None = None
    """The target of these passes."""
    nodes: tuple[int, ...] | None = None
    """The index of the ONNX node for each line of the object's line table; None if line i is node i - 1 of the model."""
    digest: bytes = b""
    """The digest of `bytecode` without the names of ONNX nodes, which the object does not depend on."""


def split_module(module: ir.Module, pipeline: str = "", target: Target | None = None) -> list[Unit]:
    """One unit for each function with external linkage that `module` defines, in the order of the module.

    The module is in the llvm dialect, or `pipeline` takes each of its functions there, for `target`. Private functions of the llvm dialect and
    constants are copied to each of their users. If `pipeline` is given, each unit numbers its ONNX nodes by itself. Raises CodegenError for symbols
    that cannot be in several objects (a variable that several functions share) and for operations that do not belong in such a module.
    """
    symbols = {_symbol(op.operation, lowered=not pipeline): op.operation for op in module.body.operations}
    units = [(name, _closure(name, symbols)) for name, op in symbols.items() if _is_function(op) and _is_defined(op) and _is_external(op)]
    owners: dict[str, str] = {}
    for name, used in units:
        for other in used:
            is_variable = symbols[other].name in _VARIABLES and "constant" not in symbols[other].attributes
            if is_variable and owners.setdefault(other, name) != name:
                raise CodegenError(f"the variable @{other} is used by @{owners[other]} and by @{name}: variables cannot be in two objects")
    return [_unit(_part(module, name, used, symbols), name, pipeline, target) for name, used in units]


def whole_module(module: ir.Module, name: str = "main") -> Unit:
    """The module as one unit, to compile all of it to one object."""
    own: Any = module.operation.clone()
    if TargetInfo.target.name in own.attributes:
        del own.attributes[TargetInfo.target.name]  # the context in which it is compiled has none of our dialects
    return Unit(name, _bytecode(own))


def _symbol(op: ir.Operation, *, lowered: bool = True) -> str:
    allowed = _LOWERED if lowered else (*_FUNCTIONS, *_VARIABLES)
    if op.name not in allowed:
        raise CodegenError(f"'{op.name}' at {op.location}: expected only {' and '.join(allowed)} at the top of the module")
    return ir.StringAttr(op.attributes["sym_name"]).value


def _is_function(op: ir.Operation) -> bool:
    return op.name in _FUNCTIONS


def _is_defined(op: ir.Operation) -> bool:
    return len(op.regions[0].blocks) > 0


def _is_external(op: ir.Operation) -> bool:
    return "linkage" not in op.attributes or str(op.attributes["linkage"]) == "#llvm.linkage<external>"


def _references(op: ir.Operation) -> set[str]:
    # Printing is done in C++ and takes a tenth of the time of a walk in Python; constants are elided.
    text = str(op.get_asm(large_elements_limit=8, assume_verified=True, use_local_scope=True))
    return {quoted or plain for quoted, plain in _REFERENCE.findall(text)}


def _closure(name: str, symbols: dict[str, ir.Operation]) -> list[str]:
    """The other symbols that the unit of `name` needs, through private helpers and constants, in the module's order."""
    found: set[str] = set()
    work = [name]
    while work:
        used = _references(symbols[work.pop()]) & symbols.keys()
        for other in used - found - {name}:
            found.add(other)
            if not _is_function(symbols[other]) or not _is_external(symbols[other]):
                work.append(other)
    return [symbol for symbol in symbols if symbol in found]


def _unit(part: ir.Module, name: str, pipeline: str, target: Target | None) -> Unit:
    if not pipeline:  # it has debug information, which names lines already
        bytecode = _bytecode(part)
        return Unit(name, bytecode, digest=sha256(bytecode).digest())
    nodes = renumber_nodes(part.operation)
    bytecode = _bytecode(part)  # with the nodes' names, for error messages
    strip_node_names(part.operation)
    return Unit(name, bytecode, pipeline, target, nodes, sha256(_bytecode(part)).digest())


def _part(module: ir.Module, name: str, used: list[str], symbols: dict[str, ir.Operation]) -> ir.Module:
    """A module with the function `name`, copies of the constants and private functions it uses, declarations of the others."""
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
                else:
                    _make_private(op.clone().operation)
            function = symbols[name].clone().operation
            # The engine adds a wrapper that calls the function; inlining would put a second copy of its body in there.
            function.attributes[_FUNCTIONS[function.name]] = ir.UnitAttr.get()
        return part


def _declare(op: ir.Operation) -> None:
    attributes = {key: op.attributes[key] for key in _KEPT_ON_DECLARATIONS if key in op.attributes}
    # Not the location of the definition: a subprogram's definition may not be attached to a declaration.
    declaration = ir.Operation.create(op.name, attributes=attributes, regions=1)
    if op.name == "func.func":
        declaration.attributes["sym_visibility"] = ir.StringAttr.get("private")  # otherwise it would need a body


def _make_private(op: ir.Operation) -> None:
    if op.name.startswith("llvm."):
        op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
    else:
        op.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _bytecode(module: Any) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def make_engine_context() -> ir.Context:
    """A context for `compile_unit`: functions at level affine need only one dialect of ours, `sched`, and those in the llvm dialect none."""
    return make_context(Sched)


def compile_unit(
    unit: Unit, context: ir.Context, libraries: tuple[str, ...] = (), engines: "collections.deque[ExecutionEngine] | None" = None
) -> bytes:
    """The object of `unit`, for the CPU that its functions name or else this machine's, at the highest optimisation level. Holds the GIL.

    `libraries` are shared libraries whose functions the code may call (OpenMP's). The engine that compiled it is appended to `engines`, if given, and
    is not destroyed before it is dropped there. Raises CodegenError or PassError, naming the function.
    """
    with diagnostics(context) as lines:
        try:
            module = ir.Module.parse(unit.bytecode, context)
            if unit.pipeline:
                _lower(module, unit)
            if TRIPLE in module.operation.attributes:
                triple = ir.StringAttr(module.operation.attributes[TRIPLE]).value
                raise CodegenError(f"@{unit.name} has instructions of {triple}, and this machine, {host().family}, makes no code for that")
            # Looked up first, because the engine crashes when it has nothing to compile.
            if not any(_symbol(op.operation) == unit.name and _is_defined(op.operation) for op in module.body.operations):
                raise CodegenError(f"@{unit.name} cannot be translated to LLVM: its module does not define it")
            with context:
                engine = ExecutionEngine(module, opt_level=3, shared_libs=list(libraries))
            if engines is not None:
                engines.append(engine)
        except (ir.MLIRError, RuntimeError) as error:
            raise CodegenError(f"@{unit.name} cannot be translated to LLVM: {'; '.join(lines) or error}") from None
    for op in module.body.operations:
        if _is_function(op.operation) and not _is_defined(op.operation):
            engine.raw_register_runtime(_symbol(op.operation), ctypes.c_void_p(_NOWHERE))
    # Compiles. If a function is missing, the lookup fails only afterwards; the loader reports which one.
    engine.raw_lookup(unit.name)
    data = _dump(engine)
    if not data:
        raise CodegenError(f"@{unit.name}: LLVM emitted no object")
    return data


def _lower(module: ir.Module, unit: Unit) -> None:
    from stepwell.passes.framework.registry import PassState  # imported here, because a unit in the llvm dialect needs no passes
    from stepwell.passes.framework.runner import PassRunner

    try:
        PassRunner(PassState(target=unit.target), optimistic=True).run(module, unit.pipeline, level="llvm")
    except PassError as error:  # without the diagnostics, which cannot be sent between processes
        raise PassError(f"@{unit.name}: {error.args[0]}", code=error.code, details=error.details) from None


_OPEN_FILES = "/proc/self/fd"  # Linux only; missing in some containers


def _dump(engine: ExecutionEngine) -> bytes:
    """The engine's object. The engine can only write it to a file; LLVM ends the process if a disk is full, so the file is in memory if possible."""
    if Path(_OPEN_FILES).is_dir():
        with nameless_file() as unnamed:
            engine.dump_to_object_file(f"{_OPEN_FILES}/{unnamed.fileno()}")
            return unnamed.read()
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        engine.dump_to_object_file(file.name)
        return file.read()
