"""The levels of the stair and the pipelines between them."""

from collections.abc import Sequence

from stepwell.dialects.support.errors import InputError, shown

LEVELS = ("graph", "graph-opt", "linalg", "scheduled", "affine", "llvm")
MEANT = LEVELS[:4]  # whose IR has a meaning that can be run without code: see interpretation.py
PACKED = "linalg"  # from here on each weight has its place in memory
LIBM = "expand-math"  # the technique to switch off to have functions from libm
ARTIFACTS = ("llvm-ir", "asm", "obj")  # what `--emit` knows beside the levels

_STEPS = {
    "graph-opt": (
        "fold-constants,remove-identities,simplify-algebra,fold-batch-norm,fold-constants,remove-identities,canonicalize,cse,"
        "check-indices,make-padding-explicit,fold-constants,remove-identities,use-products,block-channels,canonicalize,use-winograd,use-panels,canonicalize,cse,"
        "remove-identities,check-lowerable,fuse-operators,outline-kernels"
    ),
    "linalg": (
        "pack-weights,convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize),"
        "func.func(remove-boundaries,use-destinations,fill-borders,share-loops,collapse-dimensions,canonicalize)"
    ),
    "scheduled": "func.func(assign-schedules)",
    "affine": "bufferize,func.func(lower-to-affine),canonicalize,cse",
    # The canonicalisation after convert-scf-to-openmp removes the memref.alloca_scope that it makes. Functions are converted before
    # OpenMP, whose conversion would give them descriptors. Calls of libm on vectors take them apart, so vectors are converted after.
    "llvm": (
        "bare-arguments,expand-math,select-bounds,lower-affine,{openmp}canonicalize,cse,limit-unrolling,convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,"
        "convert-vector-to-llvm,expand-strided-metadata,lower-affine,arith-expand{{include-bf16=true}},finalize-memref-to-llvm,convert-arith-to-llvm,"
        "convert-func-to-llvm{{use-bare-ptr-memref-call-conv=true}},{openmp_to_llvm}convert-cf-to-llvm,convert-index-to-llvm,"
        "reconcile-unrealized-casts,canonicalize,cse,pack-arguments,ensure-debug-info-scope-on-llvm-func{{emission-kind=LineTablesOnly}},set-target"
    ),
}


def check_level(level: str) -> str:
    """`level` itself. Raises InputError if it is not a level of the stair."""
    if not isinstance(level, str) or level not in LEVELS:
        raise InputError(f"unknown level {shown(level)}; the levels are: {', '.join(LEVELS)}")
    return level


def step(level: str, *, openmp: bool = True, disable: Sequence[str] = ()) -> str:
    """The pipeline that takes the level above down to `level`; with `openmp` false, threaded loops become plain ones.

    `disable` names techniques that are switched off, as `check_disable` gives them.
    """
    if check_level(level) == LEVELS[0]:
        return ""
    text = _STEPS[level]
    if level == "llvm":
        text = text.format(openmp="convert-scf-to-openmp," if openmp else "", openmp_to_llvm="convert-openmp-to-llvm," if openmp else "")
    if not disable:
        return text
    from stepwell.driver.techniques import without  # here and below, because it loads the passes

    return without(text, disable)


def last_step(*, openmp: bool = True, disable: Sequence[str] = ()) -> tuple[str, str]:
    """The pipeline down to `llvm` in two: what has to see callers and kernels together, and what can be run on each function by itself."""
    whole, cut, each = step(LEVELS[-1], openmp=openmp, disable=disable).partition("bare-arguments,")
    return f"{whole}{cut}".rstrip(","), each


def techniques() -> dict[str, str]:
    """What can be switched off on the way down, in order: the name of each technique, and of the pass that does it."""
    from stepwell.driver.techniques import techniques_of

    return techniques_of(step(level) for level in LEVELS)


def relaxed() -> tuple[str, ...]:
    """The techniques that strict code does without (docs/numerics.md)."""
    from stepwell.driver.techniques import relaxed_of

    return relaxed_of(step(level) for level in LEVELS)


def check_disable(names: Sequence[str], *, strict: bool = False) -> tuple[str, ...]:
    """The names of techniques to switch off, each once; with `strict` those that are relaxed too.

    Raises InputError for one that does not exist or cannot be switched off.
    """
    if not names and not strict:
        return ()
    from stepwell.driver.techniques import check_techniques

    return tuple(dict.fromkeys((*check_techniques(names, techniques()), *(relaxed() if strict else ()))))


def steps_between(start: str, end: str) -> list[str]:
    """The levels to go through from `start` (exclusive) down to `end` (inclusive). Raises InputError if `end` lies above `start`."""
    first, last = LEVELS.index(check_level(start)), LEVELS.index(check_level(end))
    if last < first:
        raise InputError(f"level '{end}' lies above '{start}': data goes down the stair only")
    return list(LEVELS[first + 1 : last + 1])
