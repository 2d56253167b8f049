"""Einsum's repeated labels, natively, against numpy."""

import numpy as np
import pytest
from importing import model, node, rng

import stepwell

CASES = [
    ("bii->b", (3, 5, 5)), ("ii->i", (4, 4)), ("ii->", (7, 7)), ("ibi->bi", (5, 3, 5)), ("iijj->ij", (3, 3, 4, 4)), ("iii->i", (4, 4, 4)),
    ("ibic->cb", (6, 2, 6, 3)), ("...ii->...i", (2, 3, 4, 4)), ("ii->i", (1, 1)), ("ii->i", (0, 0)), ("iji->j", (70, 2, 70)),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shape"), CASES)
def test_diagonals(equation: str, shape: tuple[int, ...]) -> None:
    x = rng(5).normal(size=shape).astype(np.float32)
    want = np.einsum(equation, x)
    got = stepwell.compile(model([node("Einsum", ["x"], equation=equation)], {"x": x}, {"y": want}))(x)[0]
    terms = shape[0] if shape else 1
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=float(terms * np.finfo(np.float32).eps * 4))


def test_what_lies_beside_a_diagonal_has_no_part() -> None:
    x = np.where(np.eye(5) > 0, rng(6).normal(size=(5, 5)), np.nan).astype(np.float32)
    got = stepwell.compile(model([node("Einsum", ["x"], equation="ii->i")], {"x": x}, {"y": x[0]}))(x)[0]
    np.testing.assert_array_equal(got, np.diagonal(x))


def test_a_label_of_two_sizes() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(stepwell.ModelError, match="label 'i' stands for 2 and for 3 elements"):
        stepwell.compile(model([node("Einsum", ["x"], equation="ii->i")], {"x": x}, {"y": x[0]}))
