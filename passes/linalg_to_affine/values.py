"""Values in a nest: loads of scalars and vectors, indices, constants, and folding them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.attributes import dense_value
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import affine, arith, defining_op, ir, vector
from stepwell.dialects.target.numbers import SHUFFLED_STRIDE
from stepwell.passes.linalg.accesses import FEW_NUMBERS, Access
from stepwell.passes.linalg.views import origin
from stepwell.passes.linalg_to_affine import emit


def load(source: ir.Value, kind: str, width: int, ivs: Sequence[ir.Value], address: Callable[[int], Any], step: int | None = None) -> ir.Value:
    """Load from a memref: a scalar, a vector of successive elements, or a vector assembled from others.

    `address` maps each lane to its address; with `step`, the lanes are that many elements of one row apart.
    """
    element = ir.MemRefType(source.type).element_type
    if kind == "scalar":
        return emit.loaded(element, source, ivs, address(0))
    vector_type = ir.VectorType.get([width], element)
    if kind == "vector":
        return emit.loaded(vector_type, source, ivs, address(0))
    if step is not None and step and abs(step) <= SHUFFLED_STRIDE and abs(step) < width:
        rows = [emit.loaded(vector_type, source, ivs, where) for where in _stretches(address, step, width)]
        lowest = 0 if step > 0 else (1 - width) * step
        return picked(rows, [lowest + step * lane for lane in range(width)], _starts(abs(step), width))
    lanes = [emit.loaded(element, source, ivs, address(lane)) for lane in range(width)]
    return vector.FromElementsOp(vector_type, lanes).result


def given_number(access: Access) -> ir.Value | None:
    """The one element of an argument that a kernel does not write, read at the beginning of the kernel; None for any other access.

    In a function that threads run, LLVM cannot assume that their writes do not alias it: they would read it again in each iteration of their loops.
    """
    source = origin(access.value)
    if not isinstance(source, ir.BlockArgument) or any(size != 1 for size in source.type.shape):
        return None
    kernel = source.owner.owner.operation
    if kernel.name != "func.func" or not KernelInfo(kernel).is_kernel:
        return None
    if source.arg_number >= KernelInfo(kernel).first_destination(len(source.owner.arguments)):
        return None  # a part of the kernel may read what another part wrote
    zeros = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(0)] * source.type.rank)
    with ir.InsertionPoint.at_block_begin(source.owner):
        return emit.loaded(source.type.element_type, source, [], zeros)


def _stretches(address: Callable[[int], Any], step: int, width: int) -> list[Any]:
    """Addresses of vectors that cover the elements of a row from the lowest lane to the highest, and nothing beyond."""
    lowest = address(0 if step > 0 else width - 1)
    return [further(lowest, start) for start in _starts(abs(step), width)]


def _starts(step: int, width: int) -> list[int]:
    return [min(j * width, (step - 1) * (width - 1)) for j in range(step)]


def further(where: Any, elements: int) -> Any:
    """The address `elements` further along the same row."""
    *rows, last = where.results
    return ir.AffineMap.get(where.n_dims, where.n_symbols, [*rows, last + elements])


def picked(rows: list[ir.Value], places: list[int], starts: list[int]) -> ir.Value:
    """A vector of the elements at `places` of a row, taken from vectors that begin at `starts`: each vector in turn supplies the ones it contains."""
    width = len(places)
    source = [min(place // width, len(rows) - 1) for place in places]
    first, *others = rows
    mask = [place if of == 0 else 0 for place, of in zip(places, source, strict=True)]
    if not others:
        return vector.ShuffleOp(first, first, mask).result
    found = first
    for j, row in enumerate(others, 1):
        mask = [width + place - starts[j] if of == j else kept for place, of, kept in zip(places, source, mask, strict=True)]
        found, mask = vector.ShuffleOp(found, row, mask).result, list(range(width))
    return found


def index_value(expr: Any, ivs: Sequence[ir.Value], width: int) -> ir.Value:
    """An affine expression of the loop variables as an index, or as `width` successive ones."""
    scalar = affine.AffineApplyOp(ir.AffineMapAttr.get(ir.AffineMap.get(len(ivs), 0, [expr])), list(ivs)).result
    if width == 1:
        return scalar
    vector_type = ir.VectorType.get([width], ir.IndexType.get())
    return arith.addi(vector.broadcast(vector_type, scalar), vector.StepOp(vector_type).result)


def known_array(access: Access) -> np.ndarray | None:
    """The few elements of an operand that is a constant of the module; otherwise None."""
    source = defining_op(access.value) if access.is_shaped else None
    if source is None or source.name != "memref.get_global" or math.prod(access.shape) > FEW_NUMBERS:
        return None
    module = source
    while module.parent is not None:
        module = module.parent.operation
    found = ir.SymbolTable(module)[ir.FlatSymbolRefAttr(source.attributes["name"]).value]
    return dense_value(ir.DenseElementsAttr(found.attributes["initial_value"]))


def constant_of(element: ir.Type, value: float) -> ir.Value:
    """A scalar constant of type `element`."""
    attribute = ir.FloatAttr.get(element, float(value)) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, int(value))
    return emit.value("arith.constant", element, [], {"value": attribute})


def extended(value: ir.Value, element: ir.Type, signed: bool) -> ir.Value:
    """An integer, or a vector of integers, extended to an equally wide or wider type; any other value unchanged."""
    kind = value.type
    own = kind.element_type if isinstance(kind, ir.VectorType) else kind
    if own == element or not isinstance(own, ir.IntegerType):
        return value
    to = ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element
    return arith.extsi(to, value) if signed else arith.extui(to, value)


def is_zero(value: ir.Value) -> bool:
    """Whether a value, or each element of it, is the constant zero."""
    source = defining_op(value)
    if source is not None and source.name == "vector.broadcast":
        return is_zero(source.operands[0])
    if source is None or source.name != "arith.constant":
        return False
    number = source.attributes["value"]
    if isinstance(number, (ir.FloatAttr, ir.IntegerAttr)):
        return bool(number.value == 0)
    return isinstance(number, ir.DenseElementsAttr) and not dense_value(number).any()


def neutral(combiner: str, element: ir.Type) -> ir.Value:
    """The neutral element of a combiner: folding it in changes nothing."""
    width = 64 if isinstance(element, ir.FloatType) else ir.IntegerType(element).width
    values: dict[str, float] = {
        "arith.addf": 0.0, "arith.addi": 0, "arith.mulf": 1.0, "arith.muli": 1, "arith.maximumf": float("-inf"), "arith.minimumf": float("inf"),
        "arith.maxnumf": float("-inf"), "arith.maxsi": -(1 << (width - 1)), "arith.minsi": (1 << (width - 1)) - 1, "arith.maxui": 0,
        "arith.minui": -1, "arith.andi": -1, "arith.ori": 0, "arith.xori": 0,
    }  # fmt: skip
    return constant_of(element, values[combiner])


def combine(combiner: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Fold two scalars, or two vectors lane by lane, with the combining op `combiner`."""
    return emit.value(combiner, a.type, [a, b])
