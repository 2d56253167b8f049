"""Passes that make ops of the dialect `packed`: blocks of channels, panels of columns, Winograd's method; importing this registers them."""

from stepwell.passes.packed import convert_layout, pack_matmul, skip_padding, use_integer_winograd, use_winograd, version_few_rows, version_winograd

__all__ = ["convert_layout", "pack_matmul", "skip_padding", "use_integer_winograd", "use_winograd", "version_few_rows", "version_winograd"]
