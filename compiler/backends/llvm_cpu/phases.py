"""The phases on the way to machine code for the CPU, in addition to those that all backends share."""

from stepwell.backends.phases import KERNELS, LOOPS, SIMPLIFICATION, TARGET
from stepwell.pipelines.phases import Phase

LAYOUT = Phase(
    "layout for vectors", "graph-opt",
    """
    narrow-floats, separate-zero-points, narrow-products,
    convert-layout, canonicalize, use-winograd, use-integer-winograd, skip-padding,
    pack-matmul, canonicalize, cse, remove-identities, pack-integer-products
    """,
)  # fmt: skip
VERSIONS = Phase("versions of kernels", "graph-opt", "version-winograd, version-few-rows")
FUSED_LOOPS = Phase(
    "fused loops", "linalg", "version-kernels, func.func(fuse-loops, collapse-dimensions, share-destinations, canonicalize)"
)  # fmt: skip
SCHEDULES = Phase("schedules", "scheduled", "func.func(assign-schedules, version-tiles)")
BUFFERS = Phase("memory and loops", "affine", "bufferize, func.func(lower-to-affine), merge-versions, skip-joined, canonicalize, cse")
PLACES = Phase("places of weights", "llvm", "locate-weights, bare-arguments")
CODE = Phase(
    "code of loops", "llvm",
    "expand-math, expand-fma, select-bounds, round-in-conversion, lower-affine, fit-tiles, boolean-vectors, select-bf16, bf16-as-integers",
    True,
)  # fmt: skip
THREADS = Phase("threads", "llvm", "convert-scf-to-openmp", True)
CALLS = Phase(
    "conversion to llvm", "llvm",
    """
    choose-threads, guide-loops,
    // This canonicalisation removes the memref.alloca_scope that convert-scf-to-openmp makes.
    canonicalize, cse, limit-unrolling, convert-scf-to-cf, convert-math-to-llvm,
    // Calls of libm on vectors take them apart, so vectors are converted afterwards.
    convert-math-to-libm, convert-vector-to-llvm{enable-x86=true}, carry-tiles, expand-strided-metadata, lower-affine,
    arith-expand{include-bf16=true}, finalize-memref-to-llvm, convert-arith-to-llvm, convert-ub-to-llvm,
    // Functions before OpenMP, whose conversion would give them descriptors.
    convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}
    """,
    True,
)  # fmt: skip
THREAD_CALLS = Phase("calls of OpenMP", "llvm", "convert-openmp-to-llvm", True)
TARGET_CODE = Phase(
    "code for the target", "llvm",
    """
    convert-cf-to-llvm, convert-index-to-llvm,
    reconcile-unrealized-casts, canonicalize, cse, hide-indices, pack-arguments, split-main,
    ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}, set-target
    """,
    True,
)  # fmt: skip

SEQUENTIAL = (
    SIMPLIFICATION, TARGET, LAYOUT, KERNELS, VERSIONS, LOOPS, FUSED_LOOPS, SCHEDULES, BUFFERS, PLACES, CODE, CALLS, TARGET_CODE,
)  # fmt: skip
"""Code for one thread, without an OpenMP run time."""
CPU = (*SEQUENTIAL[:-2], THREADS, CALLS, THREAD_CALLS, TARGET_CODE)

SWITCHES = (
    "widen-halves", "use-integers", "simplify-algebra", "fold-batch-norm", "use-recurrences", "hoist-from-loops", "check-indices",
    "use-sub-pixels", "use-products", "fuse-attention",
    "separate-zero-points", "narrow-products", "convert-layout", "unmasked-lanes", "use-winograd", "use-integer-winograd", "skip-padding",
    "pack-matmul", "slice-floats", "pack-integer-products", "use-fake-quantize", "fuse-operators", "fuse-producers", "version-winograd",
    "version-few-rows", "fill-borders", "collapse-dimensions", "version-kernels", "fuse-loops", "version-tiles", "expand-math", "select-bounds",
    "round-in-conversion", "guide-loops", "limit-unrolling", "hide-indices",
)  # fmt: skip
"""The switches for `--disable` in these phases, equal to `Pipeline.switches`, for help: asking the passes takes a second."""
