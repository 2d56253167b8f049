"""Common counts of arithmetic: values of `flops` of op classes."""


from stepwell.dialects.core.types import TensorType


def one_per_element(*operands: object, result: TensorType, **attributes: object) -> int:
    """Count one operation per element of the result."""
    return result.elements


def one_per_input(x: TensorType, *others: TensorType, result: TensorType, **attributes: object) -> int:
    """Count one operation per element of the first operand."""
    return x.elements


def two_per_product(x: TensorType, *others: object, result: TensorType, **attributes: object) -> int:
    """Count a multiplication and an addition per element of the result and element of a row of the first operand."""
    return 2 * result.elements * x.static_shape[-1]


def no_arithmetic(*operands: object, result: TensorType, **attributes: object) -> int:
    """Count nothing, for an op that only moves data."""
    return 0
