"""The phases that all backends share: the semantics of a model, independent of how a machine computes it."""

from stepwell.pipelines.phases import Phase

SIMPLIFICATION = Phase(
    "simplification", "graph-opt",
    """
    bind-sizes, emulate-floats, widen-halves, use-integers,
    fold-constants, remove-identities, simplify-algebra, fold-batch-norm, fold-constants, remove-identities, canonicalize, cse,
    use-recurrences, hoist-from-loops, append-in-place, outline-regions, check-indices, use-sub-pixels,
    make-padding-explicit, fold-constants, remove-identities, use-products,
    fuse-attention
    """,
)  # fmt: skip
TARGET = Phase("target", "graph-opt", "attach-target")
"""From here on passes ask the target for its vectors and caches."""
KERNELS = Phase("kernels", "graph-opt", "use-fake-quantize, check-lowerable, limit-concats, fuse-operators, outline-kernels")
LOOPS = Phase(
    "loops on tensors", "linalg",
    """
    pack-weights, convert-graph-to-linalg, func.func(linalg-fuse-elementwise-ops, canonicalize),
    func.func(remove-boundaries, use-destinations, fill-borders, collapse-dimensions{free=true})
    """,
)  # fmt: skip
COMMON = (SIMPLIFICATION, TARGET, KERNELS, LOOPS)
"""From the level graph to linalg. A backend may insert phases of its own, or leave out phases that it does not need."""
