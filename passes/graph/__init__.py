"""Passes on the graph level; importing this registers them."""

from stepwell.passes.graph import (
    block_channels,
    check_indices,
    fold_batch_norm,
    fold_constants,
    fuse_operators,
    make_padding_explicit,
    outline_kernels,
    remove_identities,
    simplify_algebra,
    use_panels,
    use_products,
    use_winograd,
)

__all__ = [
    "block_channels",
    "check_indices",
    "fold_batch_norm",
    "fold_constants",
    "fuse_operators",
    "make_padding_explicit",
    "outline_kernels",
    "remove_identities",
    "simplify_algebra",
    "use_panels",
    "use_products",
    "use_winograd",
]
