"""Checks for inference functions. Each raises InferenceError that names the operand or attribute, the expected value and the actual one."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.sizes import Dim, Size, holds
from stepwell.dialects.core.types import BOOL, FLOATS, INTEGERS, NUMERIC, SIGNED, UNSIGNED, TensorType, compute_dtype, is_emulated
from stepwell.dialects.graph.base import broadcast
from stepwell.dialects.support.errors import ElementTypeError, InferenceError

INDEX = ("i32", "i64")
_KINDS = {
    FLOATS: "a float", INTEGERS: "an integer", NUMERIC: "numeric", SIGNED: "a signed integer", UNSIGNED: "an unsigned integer", (BOOL,): "i1",
}  # fmt: skip


def kind_of(dtypes: Sequence[str]) -> str:
    """The name of a set of element types in messages."""
    return _KINDS.get(tuple(dtypes)) or "one of " + ", ".join(dtypes)


def expect_dtype(name: str, operand: TensorType, dtypes: Sequence[str]) -> None:
    """The operand's element type is one of `dtypes`, or computed in one."""
    if operand.dtype not in dtypes and not (is_emulated(operand.dtype) and compute_dtype(operand.dtype) in dtypes):
        raise ElementTypeError(f"the element type of operand '{name}' must be {kind_of(dtypes)}, got {operand}")


def expect_same_dtype(**operands: TensorType) -> None:
    """Check that all operands have the same element type."""
    if len({t.dtype for t in operands.values()}) > 1:
        names = " and ".join(f"'{n}'" for n in operands)
        raise ElementTypeError(f"operands {names} must have one element type, got {' and '.join(map(str, operands.values()))}")


def expect_rank(name: str, operand: TensorType, rank: int) -> None:
    """Check that the operand has exactly this rank."""
    if operand.rank != rank:
        raise InferenceError(f"operand '{name}' must have rank {rank}, got {operand}")


def expect_rank_at_least(name: str, operand: TensorType, rank: int) -> None:
    """Check that the operand has this rank or a higher one."""
    if operand.rank < rank:
        raise InferenceError(f"operand '{name}' must have rank {rank} or more, got {operand}")


def expect_scalar(name: str, operand: TensorType, dtypes: Sequence[str]) -> None:
    """Check that the operand is a rank-0 tensor of one of `dtypes`."""
    expect_rank(name, operand, 0)
    expect_dtype(name, operand, dtypes)


def expect_axis(name: str, axis: int, rank: int) -> None:
    """Check an axis of a tensor of this rank; axes in the IR count from 0 and are never negative."""
    if rank == 0:
        raise InferenceError(f"attribute '{name}' must be an axis, but the tensor has rank 0; got {axis}")
    if not 0 <= axis < rank:
        raise InferenceError(f"attribute '{name}' must be an axis from 0 to {rank - 1} of a tensor of rank {rank}, got {axis}")


def expect_axes(name: str, axes: Sequence[int], rank: int) -> None:
    """Check that axes of a tensor of this rank are distinct."""
    for axis in axes:
        expect_axis(name, axis, rank)
    if len(set(axes)) != len(axes):
        raise InferenceError(f"attribute '{name}' names an axis twice: {list(axes)}")


def expect_length(name: str, values: Sequence[Any], length: int, what: str) -> None:
    """Check that an attribute has one entry for each of `what`."""
    if len(values) != length:
        raise InferenceError(f"attribute '{name}' must have {length} entries, {what}; got {list(values)}")


def expect_floats(name: str, values: Sequence[Any], length: int, what: str) -> None:
    """Check that a list attribute has one float for each of `what`."""
    if len(values) != length or not all(isinstance(v, float) for v in values):
        raise InferenceError(f"attribute '{name}' must have {length} floats, {what}; got {list(values)}")


def expect_at_least(name: str, values: Sequence[int | Size], least: int) -> None:
    """Check that every entry of an attribute is `least` or more; a size that is known only at run time is assumed to be."""
    if not all(holds(v, ">=", least) for v in values):
        raise InferenceError(f"the entries of attribute '{name}' must be {least} or more, got {list(values)}")


def expect_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Check that a string attribute is one of its possible values."""
    if value not in choices:
        raise InferenceError(f"attribute '{name}' must be one of {', '.join(choices)}; got '{value}'")


def expect_dim(name: str, operand: TensorType, axis: int, size: Dim, why: str) -> None:
    """Check that a dimension of the operand equals `size`, if both are known."""
    if not holds(operand.shape[axis], "==", size):
        raise InferenceError(f"dimension {axis} of operand '{name}' must be {size}, {why}; got {operand}")


def expect_shape(name: str, operand: TensorType, shape: Sequence[Dim], why: str) -> None:
    """Check that the operand has the rank of `shape`, and its dimensions where both are known."""
    expect_rank(name, operand, len(shape))
    for axis, size in enumerate(shape):
        expect_dim(name, operand, axis, size, why)


def unary(dtypes: Sequence[str], result: str | None = None) -> Any:
    """Inference for an element-wise op with one operand `x`; `result` is the result's element type if it differs."""

    def infer(x: TensorType, **attributes: Any) -> TensorType:
        expect_dtype("x", x, dtypes)
        return x if result is None else x.with_dtype(result)

    return staticmethod(infer)


def binary(dtypes: Sequence[str], result: str | None = None) -> Any:
    """Inference for an element-wise op of `lhs` and `rhs`, broadcast; `result` is the result's element type if it differs."""

    def infer(lhs: TensorType, rhs: TensorType, **attributes: Any) -> TensorType:
        expect_same_dtype(lhs=lhs, rhs=rhs)
        expect_dtype("lhs", lhs, dtypes)
        return TensorType(result or lhs.dtype, broadcast(lhs, rhs))

    return staticmethod(infer)
