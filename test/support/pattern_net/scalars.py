"""Patterns on scalars (the dialects arith and math), each alone on its root, of arguments and constants, run by the interpreter on arrays of them."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from op_random import with_some
from pattern_net.comparing import Counts, WrongError

from stepwell.dialects.core.mlir import arith, func, ir, make_context
from stepwell.dialects.core.types import element_type, to_numpy
from stepwell.dialects.interpreter import MEANINGS, Interpreter
from stepwell.dialects.support.errors import StepwellError
from stepwell.passes.framework.decisions import Decisions
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import Pattern, apply_patterns

TYPES = ("f32", "f64", "f16", "bf16")
CONSTANTS = (None, 2.0, 0.5, -1.0, 0.0, 3.0, -0.5, 6.0)
BEFORE = (None, "math.roundeven", "arith.maxnumf")  # of an odd number, so that steps of 2^n go through all
NUMBERS = 64  # that a scalar is run on
BINARY = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "math.powf", "math.atan2", "math.copysign")
ULPS = 16
"""How far an expansion may be from the function, in units of its type. docs/vector-math.md says how far each is; its tests hold that."""


@dataclass(frozen=True)
class Case:
    """One op: its type, a constant as its last operand, and what makes one of its operands."""

    dtype: str
    constant: float | None
    before: str | None


def is_of_scalars(p: Pattern) -> bool:
    """Whether a pattern's root is an op that the interpreter can run on scalars."""
    return all(root in MEANINGS and root.startswith(("arith.", "math.")) for root in p.roots())


def cases() -> Iterator[Case]:
    """All combinations."""
    return (Case(*row) for row in itertools.product(TYPES, CONSTANTS, BEFORE))


def build(root: str, case: Case) -> ir.Module:
    """The op on its own. Raises what MLIR does where there is no such op."""
    kind, module = element_type(case.dtype), ir.Module.create()
    result = element_type("i32") if root == "arith.fptosi" else kind
    count = 2 if root in BINARY else 3 if root == "math.fma" else 1
    arguments = count - (case.constant is not None)
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", ir.FunctionType.get([kind] * arguments, [result]))
    block = main.add_entry_block()
    with ir.InsertionPoint(block):
        operands = list(block.arguments)
        if case.constant is not None:
            operands.append(arith.ConstantOp(kind, ir.FloatAttr.get(kind, case.constant)).result)
        if case.before == "math.roundeven":
            operands[0] = ir.Operation.create(case.before, results=[kind], operands=[operands[0]]).results[0]
        elif case.before == "arith.maxnumf" and case.constant is not None and len(operands) > 1:
            operands = [operands[0], ir.Operation.create(case.before, results=[kind], operands=operands).results[0]]
        func.ReturnOp([ir.Operation.create(root, results=[result], operands=operands).results[0]])
    return module


def run(module: ir.Module, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """What `@main` returns."""
    main = module.body.operations[0].operation
    with np.errstate(all="ignore"):
        (result,) = Interpreter({"main": main}).call("main", arrays)
    return np.broadcast_to(np.asarray(result), NUMBERS)  # a constant is one number


def tried(p: Pattern, counts: Counts, step: int) -> tuple[int, int, int, list[str]]:
    """Of every `step`th case: how many ops were tried, how often the pattern matched, how many results were compared, and what was wrong."""
    graphs = matched = compared = 0
    problems: list[str] = []
    for number, case in enumerate(itertools.islice(cases(), None, None, step)):
        with make_context(), ir.Location.name("net"):
            try:
                module, after = build(p.roots()[0], case), build(p.roots()[0], case)
                if not module.operation.verify():
                    continue
            except (ir.MLIRError, IndexError):
                continue
            graphs += 1
            state = PassState(decisions=Decisions(), running=p.name)
            try:
                times = apply_patterns(after.operation, [p], state)
            except StepwellError as error:
                problems.append(f"{case}: it raises {error}")
                continue
            assert state.decisions is not None
            counts.declined.update(decision.what for decision in state.decisions.declined)
            if not times:
                continue
            matched += 1
            if not after.operation.verify():
                problems.append(f"{case}: what it makes is not valid")
                continue
            arrays = data(case, len(module.body.operations[0].operation.regions[0].blocks[0].arguments), number)
            try:
                want, got = run(module, arrays), run(after, arrays)
            except StepwellError:
                continue  # a call, or an op of LLVM, which the interpreter does not run
            compared += 1
            try:
                check(want, got)
            except WrongError as error:
                problems.append(f"{case}: {error}\n{after}")
    return graphs, matched, compared, problems


def data(case: Case, count: int, seed: int) -> list[np.ndarray]:
    """Arguments: numbers, and every third one a peculiar one."""
    generator, dtype = np.random.default_rng(seed), to_numpy(case.dtype)
    info = ml_dtypes.finfo(dtype)
    beside = [np.nan, np.inf, -np.inf, 0.0, -0.0, float(info.smallest_normal), 1.0, -1.0]
    return [with_some(generator, np.asarray(generator.uniform(-4, 4, NUMBERS)).astype(dtype), beside) for _ in range(count)]


def check(want: np.ndarray, got: np.ndarray) -> None:
    """Raise WrongError where results differ by more than an expansion may."""
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        raise WrongError(f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}")
    if want.dtype.kind in "iub":
        bad = want != got
        allowed = np.zeros(want.shape)
    else:
        info = ml_dtypes.finfo(want.dtype)
        w, g = want.astype(np.float64), got.astype(np.float64)
        allowed = ULPS * (float(info.eps) * np.abs(w) + float(info.smallest_subnormal))
        with np.errstate(all="ignore"):
            bad = ~((w == g) | (np.abs(w - g) <= allowed) | (np.isnan(w) & np.isnan(g)))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise WrongError(f"{list(place)} is {got[place]!r}, not {want[place]!r}; {int(bad.sum())} of {bad.size} are wrong")
