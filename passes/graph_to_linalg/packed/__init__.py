"""Lowerings of the dialect `packed`."""

from stepwell.passes.graph_to_linalg.packed import conv, images, low_bit_matmul, matmul, winograd

__all__ = ["conv", "images", "low_bit_matmul", "matmul", "winograd"]
