"""One pattern alone on a graph, and whether what it makes is the same: types, and values by the references of the ops."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import getdoc
from itertools import chain

import ml_dtypes
import numpy as np
from op_closeness import is_exact
from op_random import with_some
from pattern_net.graphs import Constant, Graph, Noise, NotReadableError, block_of, build, fit, read, run, shape_in_numbers

from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.core.types import TensorType, is_compact, is_float, to_numpy
from stepwell.dialects.graph import op_class
from stepwell.dialects.support.errors import StepwellError
from stepwell.passes.framework.decisions import Decisions
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import Pattern, apply_patterns

DATA = 4  # sets of inputs that each match is compared on
FREE = (1, 2, 3, 5)  # what free sizes are
SAMPLES = 5  # of random roundings
SLACK = 6.0  # how many times farther apart than the samples lie two graphs may be
NO_MEANING = (StepwellError, NotReadableError, ValueError, IndexError, TypeError, KeyError, ArithmeticError, np.exceptions.AxisError)
EXACT_ONLY = ("fake_quantize", "equal", "less", "less_equal", "greater", "greater_equal", "not", "and", "or", "xor")


class WrongError(Exception):
    """A pattern does what it must not."""


@dataclass
class Match:
    """A graph before and after a pattern."""

    before: Graph
    after: Graph
    times: int


@dataclass
class Counts:
    """Why a pattern did not match, by reason."""

    declined: Counter[str] = field(default_factory=Counter)


def rewritten(p: Pattern, graph: Graph, counts: Counts) -> Match | None:
    """What a pattern, alone, makes of a graph; None if it does not match.

    Raises WrongError if it fails, or gives other types or IR that is not valid, and NotReadableError for a graph that is none.
    """
    with make_context(), ir.Location.name("net"):
        try:
            module, weights = build(graph)
            valid = module.operation.verify()
        except NO_MEANING as error:
            raise NotReadableError(str(error)) from None
        except ir.MLIRError as error:
            raise NotReadableError(str(error)) from None
        if not valid:
            raise NotReadableError("it is not valid")
        before = read(block_of(module), weights)
        state = PassState(weights=weights, decisions=Decisions(), running=p.name)
        try:
            times = apply_patterns(module.operation, [p], state)
            valid = module.operation.verify()
        except StepwellError as error:
            raise WrongError(f"it raises {type(error).__name__}: {error}") from error
        except ir.MLIRError as error:
            raise WrongError(f"what it makes is not valid: {error}") from error
        if not valid:
            raise WrongError("what it makes is not valid")
        assert state.decisions is not None
        counts.declined.update(decision.what for decision in state.decisions.declined)
        if not times:
            return None
        after = read(block_of(module), weights)
    for n, (old, new) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        if before.type(old) != after.type(new):
            raise WrongError(f"result {n} was {before.type(old)} and is {after.type(new)}")
    return Match(before, after, times)


def promise(p: Pattern) -> str:
    """What a pattern's docstring says of its results: `exact`, `numbers` (exact but for NaN), `finite` (exact for finite ones), or nothing."""
    text = re.sub(r"\s+", " ", (getdoc(p.rewrite) or "").split("\n\n")[0])
    if not re.search(r"\bexact\b", text):
        return ""
    return "numbers" if "exact but for NaN" in text else "finite" if "exact for finite" in text else "exact"


def rounds_alike(graph: Graph) -> bool:
    """Whether the bits of a graph's results do not depend on how its functions are computed."""
    return all(n.mnemonic in EXACT_ONLY or is_exact(op_class(n.mnemonic)) or not any(is_float(t.dtype) for t in n.types) for n in graph.nodes())


def data(kind: TensorType, shape: tuple[int, ...], generator: np.random.Generator, *, special: bool) -> np.ndarray:
    """An argument: tame numbers, or with those among them that floats have beside numbers, and the ends of integers."""
    dtype = to_numpy(kind.dtype)
    if kind.dtype == "i1":
        return np.asarray(generator.integers(0, 2, shape).astype(bool))
    if is_compact(kind.dtype):
        return np.asarray(generator.integers(0, 4, shape)).astype(dtype)
    if is_float(kind.dtype):
        tame = np.asarray(generator.uniform(-4, 4, shape)).astype(dtype)
        info = ml_dtypes.finfo(dtype)
        beside = [np.nan, np.inf, -np.inf, 0.0, -0.0, float(info.smallest_subnormal), float(info.smallest_normal), float(info.max), 1.0, -1.0]
        return with_some(generator, tame, beside) if special else tame
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if special:
        return with_some(generator, np.asarray(generator.integers(least, most, shape, dtype=dtype, endpoint=True)), [least, most, 0, 1])
    return np.asarray(generator.integers(max(-4, least), 5, shape)).astype(dtype)


def compared(p: Pattern, match: Match, seed: int) -> int:
    """On how many sets of inputs the graphs were compared. Raises WrongError where their results differ."""
    done = 0
    for number in range(DATA):
        generator = np.random.default_rng([seed, number])
        said = promise(p)
        special = number % 2 == 1 and (bool(said) or not any(is_float(a.type.dtype) for a in match.before.arguments()))
        sizes = {name: int(generator.choice(FREE)) for name in match.before.symbols()}
        unknown = int(generator.choice(FREE))
        arrays = []
        for argument in match.before.arguments():
            array = data(argument.type, shape_in_numbers(argument.type, sizes, unknown), generator, special=special)
            if said in ("numbers", "finite") and is_float(argument.type.dtype):
                array = np.where(np.isnan(array) if said == "numbers" else ~np.isfinite(array), np.ones_like(array), array)
            arrays.append(array)
        if not fit(match.before, arrays, sizes):
            continue
        try:
            want = run(match.before, arrays, sizes)
        except NO_MEANING:
            continue
        try:
            got = run(match.after, arrays, sizes)
        except NO_MEANING as error:
            raise WrongError(f"what it makes cannot be run: {type(error).__name__}: {error}") from error
        check(match, arrays, sizes, want, got, exact=bool(said))
        done += 1
    return done


def check(
    match: Match, arrays: Sequence[np.ndarray], sizes: dict[str, int], want: Sequence[np.ndarray], got: Sequence[np.ndarray], *, exact: bool
) -> None:  # fmt: skip
    """Raise WrongError where the results of the two graphs on some inputs differ by more than they may."""
    for n, (w, g) in enumerate(zip(want, got, strict=True)):
        if (w.shape, w.dtype) != (g.shape, g.dtype):
            raise WrongError(f"result {n} is {g.dtype}{list(g.shape)} and was {w.dtype}{list(w.shape)}, for sizes {sizes}")
    bits = rounds_alike(match.before) and rounds_alike(match.after)
    plain = not any(is_float(t.dtype) for e in chain(match.before.entries, match.after.entries) for t in e.types)
    if plain or (exact and bits):
        for n, (w, g) in enumerate(zip(want, got, strict=True)):
            differ_at(f"result {n}", w, g, np.zeros(w.shape), sizes)
        return
    wide_want, wide_got, scatter = scattered(match, arrays, sizes)
    for n, (w, g) in enumerate(zip(want, got, strict=True)):
        least = float(ml_dtypes.finfo(w.dtype).smallest_normal) if w.dtype.kind in "fV" and w.size else 0.0
        allowed = SLACK * evened(scatter[n]) + least
        differ_at(f"result {n} in f64", wide_want[n], wide_got[n], allowed, sizes)
        differ_at(f"result {n}", w, g, np.where(np.isfinite(allowed), allowed, np.inf), sizes)


def scattered(match: Match, arrays: Sequence[np.ndarray], sizes: dict[str, int]) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """The results of both graphs in f64, and how far either is thrown by random roundings in the types of its values."""
    wide = [a.astype(np.float64) if is_float(k.type.dtype) else a for a, k in zip(arrays, match.before.arguments(), strict=True)]
    exact = [run(graph, wide, sizes, wide=True) for graph in (match.before, match.after)]
    far = [np.zeros(a.shape) for a in exact[0]]
    for graph, middle in zip((match.before, match.after), exact, strict=True):
        for sample in range(SAMPLES):
            noisy = run(graph, wide, sizes, wide=True, noise=Noise(np.random.default_rng(sample)))
            for n, (a, b) in enumerate(zip(noisy, middle, strict=True)):
                with np.errstate(all="ignore"):
                    off = np.abs(a.astype(np.float64) - b.astype(np.float64))
                far[n] = np.maximum(far[n], np.where(np.isnan(off), np.where(np.isnan(a) != np.isnan(b), np.inf, 0), off))
    return exact[0], exact[1], far


def evened(scatter: np.ndarray) -> np.ndarray:
    """How far elements scatter, and at least about as far as half of the others: of many elements some are thrown little by chance."""
    finite = scatter[np.isfinite(scatter)]
    return np.maximum(scatter, float(np.mean(finite)) / 2 if finite.size else 0.0)


def differ_at(what: str, want: np.ndarray, got: np.ndarray, allowed: np.ndarray, sizes: dict[str, int]) -> None:
    """Raise WrongError where two arrays are farther apart than is allowed. NaN must be in the same places; zeros have no sign."""
    if want.dtype.kind in "iub" and (want.dtype.itemsize == 8 or not allowed.any()):
        bad = (want != got) & ~(allowed >= 1)
    else:
        w, g = want.astype(np.float64), got.astype(np.float64)
        with np.errstate(all="ignore"):
            bad = ~((w == g) | (np.abs(w - g) <= allowed) | (np.isnan(w) & np.isnan(g)) | np.isinf(allowed))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        said = f"{what} at {list(place)} is {got[place]!r} and was {want[place]!r}, allowed {np.broadcast_to(allowed, want.shape)[place]:.3g}"
        raise WrongError(f"{said}; {int(bad.sum())} of {bad.size} are wrong" + (f", for sizes {sizes}" if sizes else ""))


def small(graph: Graph) -> bool:
    """Whether a graph's values are few enough for a proof."""
    return all(isinstance(t.size, int) and t.size <= 256 for e in graph.entries for t in e.types) and not any(
        isinstance(e, Constant) and e.types[0].dtype not in ("i1",) and not np.isfinite(e.array.astype(np.float64)).all() for e in graph.entries
    )
