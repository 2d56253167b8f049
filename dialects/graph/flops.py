"""Common counts of arithmetic: values of `flops` of op classes."""


from stepwell.dialects.core.types import TensorType


def one_per_element(*operands: object, result: TensorType, **attributes: object) -> int:
    """Count one operation per element of the result."""
    return result.elements


def one_per_input(x: TensorType, *others: TensorType, result: TensorType, **attributes: object) -> int:
    """Count one operation per element of the first operand."""
    return x.elements


def no_arithmetic(*operands: object, result: TensorType, **attributes: object) -> int:
    """Count nothing, for an op that only moves data."""
    return 0
