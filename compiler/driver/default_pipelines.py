"""The default pipelines: the levels that a model goes through, and the passes of each stage as text that `Pipeline.parse` reads."""

from stepwell.passes.framework.levels import LevelPath

CPU_PATH = LevelPath("graph", "graph-opt", "linalg", "scheduled", "affine", "llvm")
"""The levels on the way to machine code for the CPU."""

CPU = """
graph-opt(
  bind-sizes, widen-halves, use-integers,
  fold-constants, remove-identities, simplify-algebra, fold-batch-norm, fold-constants, remove-identities, canonicalize, cse,
  use-recurrences, hoist-from-loops, append-in-place, outline-regions, check-indices, use-sub-pixels,
  make-padding-explicit, fold-constants, remove-identities, use-products,
  fuse-attention,
  // From here on the target is asked for: its vectors, its caches.
  attach-target, narrow-floats, separate-zero-points, narrow-products,
  convert-layout, canonicalize, use-winograd, use-integer-winograd, skip-padding,
  pack-matmul, canonicalize, cse, remove-identities, pack-integer-products,
  use-fake-quantize, check-lowerable, limit-concats, fuse-operators, outline-kernels, version-winograd, version-few-rows
),
linalg(
  pack-weights, convert-graph-to-linalg, func.func(linalg-fuse-elementwise-ops, canonicalize),
  func.func(remove-boundaries, use-destinations, fill-borders, collapse-dimensions{free=true}),
  version-kernels, func.func(fuse-loops, collapse-dimensions, share-destinations, canonicalize)
),
scheduled(func.func(assign-schedules)),
affine(bufferize, func.func(lower-to-affine), merge-versions, skip-joined, canonicalize, cse),
llvm(
  locate-weights, bare-arguments,
  per-function(
    expand-math, select-bounds, round-in-conversion, lower-affine, boolean-vectors, select-bf16, bf16-as-integers,
    convert-scf-to-openmp, choose-threads, guide-loops,
    // This canonicalisation removes the memref.alloca_scope that convert-scf-to-openmp makes.
    canonicalize, cse, limit-unrolling, convert-scf-to-cf, convert-math-to-llvm,
    // Calls of libm on vectors take them apart, so vectors are converted afterwards.
    convert-math-to-libm, convert-vector-to-llvm{enable-x86=true}, carry-tiles, expand-strided-metadata, lower-affine,
    arith-expand{include-bf16=true}, finalize-memref-to-llvm, convert-arith-to-llvm, convert-ub-to-llvm,
    // Functions before OpenMP, whose conversion would give them descriptors.
    convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}, convert-openmp-to-llvm, convert-cf-to-llvm, convert-index-to-llvm,
    reconcile-unrealized-casts, canonicalize, cse, hide-indices, pack-arguments, split-main,
    ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}, set-target
  )
)
"""

SWITCHES = (
    "widen-halves", "use-integers", "simplify-algebra", "fold-batch-norm", "use-recurrences", "hoist-from-loops", "check-indices",
    "use-sub-pixels", "use-products", "fuse-attention",
    "separate-zero-points", "narrow-products", "convert-layout", "unmasked-lanes", "use-winograd", "use-integer-winograd", "skip-padding",
    "pack-matmul", "slice-floats", "pack-integer-products", "use-fake-quantize", "fuse-operators", "fuse-producers", "version-winograd",
    "version-few-rows", "fill-borders", "collapse-dimensions", "version-kernels", "fuse-loops", "expand-math", "select-bounds",
    "round-in-conversion", "guide-loops", "limit-unrolling", "hide-indices",
)  # fmt: skip
"""What `--disable` can switch off in it, as `Pipeline.switches` gives it, for help: to ask the passes takes a second."""

WITH_OPENMP = ("convert-scf-to-openmp", "convert-openmp-to-llvm")
"""Its passes that make code for threads; without an OpenMP runtime they are left out."""
