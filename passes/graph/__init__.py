"""Passes on the graph level; importing this registers them."""

from stepwell.passes.graph import (
    append_in_place,
    attach_target,
    bind_sizes,
    check_indices,
    limit_concats,
    make_padding_explicit,
    narrow_floats,
    narrow_products,
    outline_regions,
    separate_zero_points,
    widen_halves,
)
from stepwell.passes.graph.fusion import fuse_attention, fuse_operators, outline_kernels
from stepwell.passes.graph.loops import hoist_from_loops, use_recurrences
from stepwell.passes.graph.quantization import use_fake_quantize, use_integers
from stepwell.passes.graph.simplification import fold_batch_norm, fold_constants, remove_identities, simplify_algebra, use_products, use_sub_pixels

__all__ = [
    "append_in_place", "attach_target", "bind_sizes", "check_indices", "fold_batch_norm", "fold_constants", "fuse_attention",
    "fuse_operators", "hoist_from_loops", "limit_concats", "make_padding_explicit", "narrow_floats", "narrow_products", "outline_kernels",
    "outline_regions", "remove_identities", "separate_zero_points", "simplify_algebra", "use_fake_quantize",
    "use_integers", "use_products", "use_recurrences", "use_sub_pixels",
    "widen_halves",
]  # fmt: skip
