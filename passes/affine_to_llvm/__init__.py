"""Lowering from affine to the llvm dialect."""

from stepwell.passes.affine_to_llvm import (
    bare_arguments,
    bf16_as_integers,
    boolean_vectors,
    carry_tiles,
    choose_threads,
    expand_math,
    guide_loops,
    hide_indices,
    limit_unrolling,
    locate_weights,
    pack_arguments,
    round_in_conversion,
    select_bf16,
    select_bounds,
    set_target,
    split_main,
)

__all__ = [
    "bare_arguments",
    "bf16_as_integers",
    "boolean_vectors",
    "carry_tiles",
    "choose_threads",
    "expand_math",
    "guide_loops",
    "hide_indices",
    "limit_unrolling",
    "locate_weights",
    "pack_arguments",
    "round_in_conversion",
    "select_bf16",
    "select_bounds",
    "set_target",
    "split_main",
]
