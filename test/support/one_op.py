"""Runs single graph ops through convert-graph-to-linalg and upstream's plain loops, for the tests of the lowerings."""

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from collected import Collected
from every import running
from op_closeness import Bound, meaningful, problem

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ExecutionEngine, func, ir, make_context, ops_below, passmanager
from stepwell.dialects.core.sizes import symbol
from stepwell.dialects.core.types import TensorType, from_numpy, to_numpy
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder, op_class
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.support.errors import StepwellError
from stepwell.passes.affine_to_llvm.expand_math import ExpandMath
from stepwell.passes.bufferize.kernels import copy_generic
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.graph_to_linalg.convert_graph_to_linalg import ConvertGraphToLinalg
from stepwell.passes.linalg.remove_boundaries import RemoveBoundaries

BUFFERISE = """builtin.module(canonicalize,
  one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map})"""
# The runtime function of a strided memref.copy is not in the bindings' libraries, hence linalg.generic for each copy in between.
LOWER = """builtin.module(func.func(convert-linalg-to-loops),lower-affine,convert-scf-to-cf,expand-strided-metadata,lower-affine,
  arith-expand{include-bf16=true},convert-math-to-llvm,convert-math-to-libm,finalize-memref-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,
  convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"""


@functools.cache
def context() -> ir.Context:
    """One context for all: loading the dialects takes longer than compiling an op."""
    return make_context()


class Literal:
    """An operand that is a constant of the kernel."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)


def type_of_operand(operand: Any) -> TensorType:
    array = operand.array if isinstance(operand, Literal) else operand
    return TensorType(from_numpy(array.dtype), array.shape)


def build(
    mnemonic: str, operands: Sequence[Any], result_types: list[TensorType] | None = None, *, into: ir.Module | None = None, **attributes: Any
) -> ir.Module:
    """A module (`into`, or one of its own) with the kernel of one op.

    Operands are by field (None absent, a list for a variadic one), as arrays, types or literals.
    """
    number = itertools.count()
    given = map_groups(lambda o: o if isinstance(o, Literal) else named(o, f"x{next(number)}"), operands)
    types = map_groups(lambda o: o if isinstance(o, TensorType) else type_of_operand(o), given)
    cls = op_class(mnemonic)
    results = result_types
    if results is None:
        inferred = cls.infer(*types, **attributes)
        results = [named(kind, f"r{i}") for i, kind in enumerate(inferred if isinstance(inferred, tuple) else (inferred,))]

    def body(b: GraphBuilder, *arguments: ir.Value) -> Sequence[ir.Value]:
        rest = iter(arguments)
        values = map_groups(lambda o: b.constant(value=o.array) if isinstance(o, Literal) else next(rest), operands)
        return list(b.create(cls, values, attributes, results).operation.results)

    return build_kernel(body, flatten(given), results, into)


def named(operand: Any, prefix: str) -> TensorType:
    """The type of an operand, or a type, with a symbol for each size that is not known: kernels have no others."""
    kind = operand if isinstance(operand, TensorType) else type_of_operand(operand)
    return kind.with_shape([symbol(f"{prefix}_{dim}") if size is None else size for dim, size in enumerate(kind.shape)])


def build_kernel(
    body: Callable[..., Any], types: Sequence[TensorType], results: Sequence[TensorType] | None = None, into: ir.Module | None = None
) -> ir.Module:
    """A module (`into`, or one of its own) with the kernel that `body(builder, *arguments)` makes; `results` where an op says them."""
    module = into or ir.Module.create()
    name = f"k{len(module.body.operations)}"
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(name, ir.FunctionType.get([t.to_mlir() for t in types], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            made = body(GraphBuilder(WeightTable()), *block.arguments)
            returned = [made] if isinstance(made, ir.Value) else list(made)
            func.ReturnOp(returned)
        outs = [t.to_mlir() for t in results] if results else [v.type for v in returned]
        for kind in outs:
            block.add_argument(kind, function.location)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], outs))
        KernelInfo(function).is_kernel = True
        function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
    return module


def flatten(operands: Sequence[Any]) -> list[Any]:
    """The operands that are arguments of the kernel, in order."""
    present = [o for g in operands if g is not None for o in (g if isinstance(g, list) else [g])]
    return [o for o in present if not isinstance(o, Literal)]


def lower(module: ir.Module) -> ir.Module:
    """Convert to linalg and verify, in place."""
    ConvertGraphToLinalg().run(module.operation, PassState())
    for function in functions(module.operation):
        RemoveBoundaries().run(function.operation, PassState())
    if not module.operation.verify():
        raise AssertionError(f"does not verify:\n{module}")
    return module


def run_op(
    mnemonic: str, arrays: Sequence[Any], result_types: list[TensorType] | None = None, types: Sequence[Any] | None = None, **attributes: Any
) -> tuple[np.ndarray, ...]:
    """The results of one op as compiled code computes them; `types` (by field) where the kernel knows less of its operands' shapes."""
    with context(), ir.Location.name(mnemonic):
        module = build(mnemonic, types or arrays, result_types, **attributes)
        return run_kernels(module, [flatten(arrays)], [lambda: shapes_of(reference(mnemonic, arrays, result_types, **attributes))])[0]


def run_kernel(body: Callable[..., Any], arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results of the kernel that `body(builder, *arguments)` makes, as compiled code computes them."""
    with context(), ir.Location.name("kernel"):
        return run_kernels(build_kernel(body, [type_of_operand(a) for a in arrays]), [arrays])[0]


Shapes = Sequence[Sequence[int]]


def shapes_of(arrays: Sequence[np.ndarray]) -> Shapes:
    return [array.shape for array in arrays]


def run_kernels(
    module: ir.Module, arrays: Sequence[Sequence[np.ndarray]], shapes: Sequence[Callable[[], Shapes]] = ()
) -> list[tuple[np.ndarray, ...]]:  # fmt: skip
    """Lower a module and call each of its kernels with its arrays; `shapes` give those of its results where a type has none."""
    given, types = [], []
    for number, (function, own) in enumerate(zip(ops_below(module.operation, "func.func"), arrays, strict=True)):
        results = [TensorType.from_mlir(t) for t in function.opview.type.results]
        sizes = [t.static_shape for t in results] if all(t.is_static for t in results) else shapes[number]()
        given.append([*own, *(np.zeros(shape, to_numpy(t.dtype)) for t, shape in zip(results, sizes, strict=True))])
        types.append([(t.dtype, t.rank) for t in results])
    lower(module)
    return execute(module, given, types)


def reference(mnemonic: str, arrays: Sequence[Any], result_types: list[TensorType] | None = None, **attributes: Any) -> tuple[np.ndarray, ...]:
    """The results of one op by its reference."""
    with context(), ir.Location.name(mnemonic):
        module = build(mnemonic, arrays, result_types, **attributes)
        op = ops_below(module.operation, op_class(mnemonic).OPERATION_NAME)[0].opview
        return op.evaluate(map_groups(lambda o: o.array if isinstance(o, Literal) else o, arrays))


def execute(
    module: ir.Module, arrays: Sequence[Sequence[np.ndarray]], results: Sequence[Sequence[tuple[str, int]]]
) -> list[tuple[np.ndarray, ...]]:  # fmt: skip
    """Bufferise, lower to loops and call each kernel with its arrays; `results` are the dtype and rank of each of its results."""
    kernels = ops_below(module.operation, "func.func")
    names = [ir.StringAttr(function.attributes["sym_name"]).value for function in kernels]
    for function, given in zip(kernels, arrays, strict=True):
        readonly = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)}, context=function.context)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([readonly] * len(given), context=function.context)
    passmanager.PassManager.parse(BUFFERISE).run(module.operation)
    for copy in ops_below(module.operation, "memref.copy"):
        with ir.InsertionPoint(copy), copy.location:
            copy_generic(*copy.operands)
        copy.erase()
    ExpandMath().run(module.operation, PassState())
    passmanager.PassManager.parse(LOWER).run(module.operation)
    engine = ExecutionEngine(module, opt_level=0, shared_libs=[])  # five times as fast as with optimisations
    return [_call(engine, *each) for each in zip(names, arrays, results, strict=True)]


def _call(engine: ExecutionEngine, name: str, arrays: Sequence[np.ndarray], results: Sequence[tuple[str, int]]) -> tuple[np.ndarray, ...]:
    address = engine.raw_lookup(f"_mlir_ciface_{name}")
    if not address:
        raise StepwellError("no entry point")
    returned = (_descriptor_of_ranks([rank for _, rank in results]))()
    inputs = [_descriptor(np.ascontiguousarray(a)) for a in arrays]
    pointers = [ctypes.cast(ctypes.pointer(d), ctypes.c_void_p) for d in (returned, *inputs)]
    cells = (ctypes.c_void_p * len(pointers))(*(ctypes.addressof(ctypes.c_void_p.from_buffer(p)) for p in pointers))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(cells))
    return tuple(_read(getattr(returned, f"r{i}"), dtype, rank) for i, (dtype, rank) in enumerate(results))


def _memref(rank: int) -> Any:
    fields = [("allocated", ctypes.c_int64), ("aligned", ctypes.c_int64), ("offset", ctypes.c_int64)]
    if rank:
        fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
    return type("Memref", (ctypes.Structure,), {"_fields_": fields})


def _descriptor_of_ranks(ranks: Sequence[int]) -> Any:
    return type("Results", (ctypes.Structure,), {"_fields_": [(f"r{i}", _memref(rank)) for i, rank in enumerate(ranks)]})


def _descriptor(array: np.ndarray) -> Any:
    made = _memref(array.ndim)()
    made.allocated = made.aligned = array.ctypes.data
    made.offset = 0
    for i in range(array.ndim):
        made.sizes[i], made.strides[i] = array.shape[i], array.strides[i] // array.itemsize
    made.keep = array
    return made


def _read(result: Any, dtype: str, rank: int) -> np.ndarray:
    shape = list(result.sizes) if rank else []
    kind = to_numpy(dtype)
    if 0 in shape:
        return np.empty(shape, kind)
    strides = [s * kind.itemsize for s in result.strides] if rank else []
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, result.strides, strict=True)) if rank else 1
    raw = (ctypes.c_uint8 * (reach * kind.itemsize)).from_address(result.aligned + result.offset * kind.itemsize)
    flat = np.frombuffer(raw, np.uint8).copy().view(kind)
    return np.lib.stride_tricks.as_strided(flat, shape, strides).copy()


def check_op(
    mnemonic: str, arrays: Sequence[Any], *, terms: int = 1, ulps: float = 1, scale: Any = None, **options: Any
) -> None:
    """Compare what compiled code computes with the reference: integers exactly, floats to `terms` roundings of a sum of size `scale`.

    `scale` (an array that broadcasts to the result, or None for the result itself) is how large what is summed is; a function in
    between may be off by `ulps`.
    """
    check_within(mnemonic, arrays, Bound(terms, ulps, scale, stored=0 if scale is None else ulps), options)


@dataclass(frozen=True)
class Check:
    """An op, its operands and `options` (its attributes, and `types` as for `run_op`), and how far its results may be from the reference."""

    name: str
    mnemonic: str
    arrays: Sequence[Any]
    allowed: Bound
    options: dict[str, Any]

    def __str__(self) -> str:
        operands = ", ".join(str(map_groups(lambda o: o if isinstance(o, TensorType) else type_of_operand(o), [o])[0]) for o in self.arrays)
        attributes = "".join(f", {k}={v}" for k, v in self.options.items() if not isinstance(v, np.ndarray))
        return f"{self.mnemonic}({operands}{attributes})"

    def build(self, module: ir.Module) -> None:
        """Put its kernel into a module."""
        attributes = {k: v for k, v in self.options.items() if k != "types"}
        build(self.mnemonic, self.options.get("types") or self.arrays, into=module, **attributes)

    def expected(self) -> tuple[np.ndarray, ...]:
        """The results by the op's reference."""
        return reference(self.mnemonic, self.arrays, **{k: v for k, v in self.options.items() if k != "types"})

    def judge(self, actual: Sequence[np.ndarray]) -> None:
        """Raise AssertionError if the results are wrong."""
        for a, e in zip(meaningful(self.mnemonic, actual), meaningful(self.mnemonic, self.expected()), strict=True):
            wrong = problem(a, e, self.allowed)
            assert wrong is None, f"{self}: {wrong}"


TOGETHER = 24  # kernels in one module


def results_of(checks: Sequence[Check]) -> list[tuple[np.ndarray, ...]]:
    """What the kernels of ops give, compiled as one module. Raises AssertionError for one that changes its operands."""
    operands = [[a.copy() for a in map(np.ascontiguousarray, flatten(one.arrays))] for one in checks]
    with context(), ir.Location.name("ops"):
        whole = ir.Module.create()
        for one in checks:
            one.build(whole)
        results = run_kernels(whole, operands, [lambda one=one: shapes_of(one.expected()) for one in checks])  # type: ignore[misc]
    for one, given in zip(checks, operands, strict=True):
        for before, after in zip(flatten(one.arrays), given, strict=True):
            assert np.ascontiguousarray(before).tobytes() == after.tobytes(), f"{one}: an operand has changed"
    return results


def batches(checks: Sequence[Check]) -> list[Sequence[Check]]:
    """Checks in groups that are one module."""
    return [checks[start : start + TOGETHER] for start in range(0, len(checks), TOGETHER)]


_collected = Collected("op", batches, results_of, Check.judge)
ops_together = _collected.at_the_end
"""Compile the ops that a test of many cases checks (see `every`) together, once all are drawn up; those that fail are named."""


def check_within(mnemonic: str, arrays: Sequence[Any], allowed: Bound, options: dict[str, Any]) -> None:
    """Compare what compiled code computes with the reference: now, or at the end of a test of `ops_together`."""
    _collected.check(Check("-".join(running), mnemonic, arrays, allowed, options))
