"""What computes register tiles: one file for each strategy; importing this registers them."""

from stepwell.passes.linalg_to_affine.strategies import constant_matrices, dot_products, plain, sums_in_lanes, tile_registers, transposed
from stepwell.passes.linalg_to_affine.strategies.registry import choose

__all__ = ["choose", "constant_matrices", "dot_products", "plain", "sums_in_lanes", "tile_registers", "transposed"]
