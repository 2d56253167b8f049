"""Interpretations of ops that create, split and assemble tensors."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir, use_count
from stepwell.dialects.graph import numerics
from stepwell.dialects.interpreter.base import Interpreter, ReferenceFault, Values, entries, meaning, scalar_dtype, segments, sizes_of

Array = np.ndarray


def undefined(sizes: Sequence[int], dtype: np.dtype) -> Array:
    """An array of undefined elements: NaN or large numbers, so that their use is noticed."""
    if numerics.is_floating(dtype):
        return np.full(sizes, np.nan, dtype)
    return np.full(sizes, True if dtype.kind == "b" else -0x55, dtype)


@meaning("tensor.empty", "bufferization.alloc_tensor")
def empty(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """A tensor with undefined elements."""
    kind = op.results[0].type
    return [undefined(sizes_of(kind, operands), scalar_dtype(kind.element_type))]


@meaning("tensor.collapse_shape")
def collapse(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """The same elements, dimensions of each group merged."""
    (x,) = operands
    groups = [[int(ir.IntegerAttr(i)) for i in ir.ArrayAttr(group)] for group in ir.ArrayAttr(op.attributes["reassociation"])]
    return [x.reshape([prod(x.shape[i] for i in group) for group in groups])]


@meaning("tensor.expand_shape")
def expand(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """The same elements, dimensions split."""
    return [operands[0].reshape(entries(op, "static_output_shape", operands[1:]))]


@meaning("tensor.dim")
def dim(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """The size of a dimension."""
    return [np.asarray(operands[0].shape[int(operands[1])])]


def window(op: ir.Operation, shape: Sequence[int], dynamic: Sequence[Sequence[Any]]) -> tuple[tuple[slice, ...], list[int]]:
    """The slices of a tensor of `shape` that an op describes by offsets, sizes and strides, and their sizes."""
    offsets, sizes, strides = (entries(op, f"static_{name}", part) for name, part in zip(("offsets", "sizes", "strides"), dynamic, strict=True))
    for dimension, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        if size < 0 or offset < 0 or (size and offset + (size - 1) * stride >= shape[dimension]):
            raise ReferenceFault(f"{size} elements from {offset} on, {stride} apart, are not in dimension {dimension} of {list(shape)}")
    return tuple(slice(o, o + n * s, s) for o, n, s in zip(offsets, sizes, strides, strict=True)), sizes


@meaning("tensor.extract_slice")
def extract_slice(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """A part of a tensor, perhaps without dimensions of size 1."""
    source, *dynamic = segments(op, operands)
    part, kind = source[0][window(op, source[0].shape, dynamic)[0]], op.results[0].type
    if kind.rank == part.ndim:
        return [part]
    rest = list(part.shape)
    for _dropped in range(part.ndim - kind.rank):
        rest.remove(1)  # any one of them: the others keep their order
    return [part.reshape(rest)]


@meaning("tensor.insert_slice")
def insert_slice(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """A tensor with a part replaced."""
    (source,), (into,), *dynamic = segments(op, operands)
    where, sizes = window(op, into.shape, dynamic)
    result = into.copy()
    result[where] = source.reshape(sizes)
    return [result]


@meaning("tensor.concat")
def concat(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """Tensors one after another."""
    return [np.concatenate(operands, axis=ir.IntegerAttr(op.attributes["dim"]).value)]


@meaning("tensor.from_elements")
def from_elements(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """A tensor of these elements."""
    kind = op.results[0].type
    return [np.array(operands, scalar_dtype(kind.element_type)).reshape(kind.shape)]


@meaning("tensor.splat")
def splat(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """A tensor that repeats one element."""
    return [np.full(sizes_of(op.results[0].type, operands[1:]), operands[0])]


def place(shape: Sequence[int], indices: Sequence[Any]) -> tuple[Array, ...]:
    """Indices, each a number or an array of them. Raises ReferenceFault if one is outside `shape`."""
    for dimension, (size, at) in enumerate(zip(shape, indices, strict=True)):
        wrong = np.asarray((at < 0) | (at >= size))
        if wrong.any():
            raise ReferenceFault(f"index {np.asarray(at)[wrong].flat[0]} is outside of dimension {dimension} of {list(shape)}")
    return tuple(np.asarray(at) for at in indices)


@meaning("tensor.extract")
def extract(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """One element, or one for each point of an iteration space."""
    return [np.asarray(operands[0][place(operands[0].shape, operands[1:])])]


@meaning("tensor.insert")
def insert(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """A tensor with one element replaced."""
    element, into, *indices = operands
    where = place(into.shape, indices)
    result = into if owned(op.operands[1]) else into.copy()
    result[where] = element
    return [result]


def owned(tensor: ir.Value) -> bool:
    """Whether the array of a tensor with one use is private: a loop-carried value (`scf.for` ensures that), or one that was inserted into."""
    made = defining_op(tensor)
    return use_count(tensor) == 1 and (tensor.owner.owner.name == "scf.for" if made is None else made.name in ("tensor.insert", "scf.for"))


@meaning("tensor.generate", "tensor.pad")
def generate(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """A tensor whose elements the body computes from their indices; with `tensor.pad` only around another."""
    if op.name == "tensor.generate":
        sizes, inner = sizes_of(op.results[0].type, operands), None
    else:
        (x,), *dynamic = segments(op, operands)
        low, high = (entries(op, f"static_{end}", part) for end, part in zip(("low", "high"), dynamic, strict=True))
        sizes = [a + n + b for a, n, b in zip(low, x.shape, high, strict=True)]
        inner = tuple(slice(a, a + n) for a, n in zip(low, x.shape, strict=True))
    places = [np.arange(n).reshape([-1 if i == d else 1 for i in range(len(sizes))]) for d, n in enumerate(sizes)]
    result = np.broadcast_to(machine.run(op, 0, places, values)[0], sizes).copy()
    if inner is not None:
        result[inner] = x
    return [result]
