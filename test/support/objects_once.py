"""Machine code of each kernel made once in a process: a kernel with the IR of one before gets that one's object.

Many tests compile a network in several ways, or one kernel with several models around it. All passes down to the units of code generation still
run each time; what is left out is the same work on the same input. Nothing is kept beyond the process, so what is tested is what the code does now.
"""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from stepwell.backends.llvm_cpu import objects, pool
from stepwell.backends.llvm_cpu.objects import Unit
from stepwell.dialects.core.mlir import ExecutionEngine, ir
from stepwell.dialects.support.extensions import extending_modules
from stepwell.plugin_files import of_code_generation

_compile_units = pool.compile_units
_objects: dict[object, bytes] = {}
_plain_objects: dict[object, bytes] = {}


def compile_units(units: Sequence[Unit], **options: Any) -> dict[str, bytes]:
    """As `stepwell.backends.llvm_cpu.pool.compile_units`."""
    return _once(units, _objects, options)


def compile_plainly(units: Sequence[Unit], **options: Any) -> dict[str, bytes]:
    """As `compile_units`, without LLVM's optimisations, which take most of the time of a small kernel: for tests of what operators mean."""

    def plain(module: ir.Module, opt_level: int, shared_libs: list[str]) -> ExecutionEngine:
        return ExecutionEngine(module, opt_level=0, shared_libs=shared_libs)

    with patch.object(objects, "ExecutionEngine", plain):
        return _once(units, _plain_objects, options)


def _once(units: Sequence[Unit], known: dict[object, bytes], options: dict[str, Any]) -> dict[str, bytes]:
    if of_code_generation() or extending_modules(code_generation=True):  # a plugin's pass may do something else each time
        return _compile_units(units, **options)
    keys = {unit.name: (unit.name, unit.digest or unit.bytecode, unit.pipeline, repr(unit.target)) for unit in units}
    made = _compile_units([unit for unit in units if keys[unit.name] not in known], **options)
    known.update({keys[name]: data for name, data in made.items()})
    return {name: known[key] for name, key in keys.items()}


def share_objects() -> None:
    """From now on in this process, which compiles by itself: those that compile for it would not know what was made."""
    pool.compile_in_process()
    pool.compile_units = compile_units


def share_plain_objects() -> None:
    """As `share_objects`, without LLVM's optimisations."""
    pool.compile_in_process()
    pool.compile_units = compile_plainly
