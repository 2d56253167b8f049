"""What computes register tiles: one file for each strategy; importing this registers them."""

from stepwell.passes.linalg_to_affine.strategies import constant_matrices, dot_products, matrix_registers, plain, sums_in_lanes, transposed
from stepwell.passes.linalg_to_affine.strategies.registry import choose

__all__ = ["choose", "constant_matrices", "dot_products", "matrix_registers", "plain", "sums_in_lanes", "transposed"]
