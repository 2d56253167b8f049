"""Graph ops through the whole compiler, many in one model, against their references."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from guarded import bits, run
from op_cases import case_of, legal_dtypes
from op_closeness import Bound, bound, may_overflow, meaningful, problem
from op_random import Case, type_of_array
from op_sweep import SIZES, Row, Sweep, pairwise

from stepwell.dialects.core.mlir import func, ir, make_context, operand_fields
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder, op_class
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.support.properties import cached_property
from stepwell.driver import build, lowering
from stepwell.driver.artifact import assemble
from stepwell.passes.framework.instrumentation import Instrumentation
from stepwell.passes.packed.use_winograd import ERRORS
from stepwell.pipelines.lowered import Lowered
from stepwell.pipelines.pipeline import Pipeline

THREADS = (1, 2)
RANKS = (0, 1, 2, 3, 4)
SAMPLE = 4
"""The rows of each op in the fixed sample, of the hundred or so that have all pairs: the first, which have the most. With fewer, some ops are run
for one target alone."""
ORDERS = 8  # different ones of the rows, so that the first of one op are not like those of the next
REWRITES = ("simplify-algebra", "fold-batch-norm", "use-sub-pixels", "use-products", "convert-layout", "use-winograd", "skip-padding", "pack-matmul")
WINOGRAD = max(ERRORS.values()) / 1e-6  # how many times as much as the direct method, whose error is 1e-6 of the scale, its rounds


@dataclass(frozen=True)
class Way:
    """A way through the compiler."""

    folding: bool
    disable: tuple[str, ...] = ()


WAYS = {"full": Way(True), "unfolded": Way(False, ("use-winograd",)), "plain": Way(False, REWRITES)}
"""All there is; without folding, so that ops of constants are compiled too, and with direct convolutions; without any rewriting of the graph."""
NOT_NATIVE: dict[str, str] = {}
"""The ops that are not compiled, and why."""
# Winograd's method makes NaN of what is beside an infinity, and weights of few bits with a zero point take infinity from infinity: both need
# finite data.
FINITE_ONLY = {"full": ("conv", "packed.low_bit_matmul"), **dict.fromkeys(("unfolded", "plain"), ("packed.low_bit_matmul",))}


@dataclass
class Instance:
    """One op with data, and how it is compiled."""

    mnemonic: str
    number: int
    case: Case
    target: str
    way: str
    constants: tuple[int, ...]
    """Which of its operands, counted with variadic ones taken apart, are constants."""
    literal: bool
    """Whether constants are written into the IR, or stand in the weight table."""

    @property
    def name(self) -> str:
        return f"{self.mnemonic}.{self.number}"

    def __str__(self) -> str:
        operands = [
            f"{type_of_array(a)}{(' literal' if self.literal else ' weight') if n in self.constants else ''}" for n, a in enumerate(self.arrays)
        ]
        attributes = "".join(f", {k}={v}" for k, v in self.case.attributes.items() if not isinstance(v, np.ndarray))
        return f"{self.name}({', '.join(operands)}{attributes}), {self.target}, {self.way}"

    @property
    def arrays(self) -> list[np.ndarray]:
        """The operands in order."""
        return [a for g in self.case.operands if g is not None for a in (g if isinstance(g, list) else [g])]

    @cached_property
    def expected(self) -> tuple[np.ndarray, ...]:
        """What the op's reference gives. Raises StepwellError where it has no meaning for the data."""
        cls = op_class(self.mnemonic)
        with np.errstate(all="ignore"):
            out = cls.reference(*self.case.operands, **self.case.attributes)
        return tuple(map(np.asarray, out if isinstance(out, tuple) else (out,)))

    @property
    def bound(self) -> Bound:
        """How far what is compiled may be from the reference: further where the graph is rewritten to other arithmetic."""
        allowed = bound(self.mnemonic, self.case.operands, self.case.attributes, self.expected[0])
        if self.mnemonic == "conv" and self.way == "full":  # by Winograd's method, perhaps
            return replace(allowed, terms=WINOGRAD * (allowed.terms + 8), scale=np.max(allowed.scale, initial=0), stored=1)
        if self.mnemonic == "batch_norm" and self.way != "plain":  # by sums and products that each round
            return replace(allowed, stored=1)
        return allowed

    def build(self, b: GraphBuilder, arguments: Iterator[ir.Value]) -> list[ir.Value]:
        """The op at the insertion point; what is no constant is taken from the `arguments`."""

        def value(n: int, array: np.ndarray) -> ir.Value:
            if n not in self.constants:
                return next(arguments)
            made: ir.Value = b.constant(value=array) if self.literal else b.weight(f"{self.name}.{n}", array)
            return made

        groups: list[Any] = []
        count = 0
        for group in self.case.operands:
            arrays = [] if group is None else group if isinstance(group, list) else [group]
            values = [value(count + i, a) for i, a in enumerate(arrays)]
            count += len(arrays)
            groups.append(values if isinstance(group, list) else values[0] if values else None)
        results = [type_of_array(a) for a in self.expected]
        return list(b.create(op_class(self.mnemonic), groups, self.case.attributes, results).operation.results)


@cache
def rows(dtypes: tuple[str, ...], constants: int, targets: tuple[str, ...], seed: int) -> list[dict[str, Any]]:
    """Rows in which every pair of an op's element types, ranks, sizes, kinds of constants, targets and ways is there."""
    chosen = ["none", *map(str, range(constants)), *(["all"] if constants > 1 else [])]
    sizes = {f"size{i}": SIZES for i in range(4)}
    return list(pairwise({
        "dtype": dtypes, "rank": RANKS, **sizes, "special": (False, True), "constants": chosen, "literal": (True, False),
        "target": targets, "way": tuple(WAYS),
    }, seed))  # fmt: skip


def instances(
    mnemonic: str, targets: Sequence[str], seed: int = 0, *, first: int | None = None, only: tuple[str, str] | None = None
) -> Iterator[Instance]:  # fmt: skip
    """Cases of one op that have all pairs of what may vary; the same seed gives the same ones.

    `first` is how many of the rows to take, the first of which have the most pairs; `only` are the target and the way that are wanted.
    """
    fields = len(operand_fields(op_class(mnemonic)))
    own = zlib.crc32(mnemonic.encode()) % ORDERS
    for number, row in enumerate(rows(legal_dtypes(mnemonic), fields, tuple(targets), own)[:first]):
        if only is None or (row["target"], row["way"]) == only:
            yield instance(mnemonic, number, row, seed)


def instance(mnemonic: str, number: int, row: dict[str, Any], seed: int) -> Instance:
    """The case of one row."""
    special = row["special"] and mnemonic not in FINITE_ONLY.get(row["way"], ())
    sizes = tuple(row[f"size{i}"] for i in range(4))
    own = Row(zlib.crc32(f"{mnemonic}.{number}.{seed}".encode()), row["dtype"], row["rank"], sizes, special)
    drawn = Sweep(own, largest=not may_overflow(mnemonic))
    made = Instance(mnemonic, number, case_of(mnemonic, drawn), row["target"], row["way"], (), row["literal"])
    count = len(made.arrays)
    which = row["constants"]
    some = range(count) if which == "all" else [] if which == "none" or int(which) >= count else [int(which)]
    made.constants = tuple(some)
    return made


def batches(every: Iterable[Instance], most: int) -> Iterator[list[Instance]]:
    """The instances, up to `most` at a time that share target and way."""
    groups: dict[tuple[str, str], list[Instance]] = {}
    for single in every:
        group = groups.setdefault((single.target, single.way), [])
        group.append(single)
        if len(group) == most:
            yield groups.pop((single.target, single.way))
    yield from groups.values()


def module_of(batch: Sequence[Instance]) -> tuple[str, WeightTable]:
    """A model that computes all the instances, each on inputs of its own, and the weights of those that have some."""
    weights = WeightTable()
    given = [[a for n, a in enumerate(i.arrays) if n not in i.constants] for i in batch]
    with make_context(), ir.Location.name("ops"):
        module = ir.Module.create()
        types = [type_of_array(a).to_mlir() for arrays in given for a in arrays]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get(types, []))
            block = main.add_entry_block()
        arguments = iter(block.arguments)
        results: list[ir.Value] = []
        with ir.InsertionPoint(block):
            builder = GraphBuilder(weights)
            for single in batch:
                with ir.Location.name(single.name):
                    results += single.build(builder, arguments)
            func.ReturnOp(results)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [r.type for r in results]))
        return str(module.operation.get_asm(enable_debug_info=True)), weights


def lowered(batch: Sequence[Instance], *, last: bool = False) -> Lowered:
    """The model of the instances, which share target and way, from the level graph down to where code is made of it, or to the last level."""
    text, weights = module_of(batch)
    way = WAYS[batch[0].way]
    pipeline = Pipeline.default(batch[0].target)
    while not way.folding and any(step.name == "fold-constants" for step in pipeline.stages[0].steps):
        pipeline = pipeline.remove("graph-opt/fold-constants#1")
    model = lowering.read_ir(text, "graph", weights, target=batch[0].target, name="ops", disable=way.disable, pipeline=pipeline)
    return lowering.descend(model, "llvm" if last else "affine", keep=False, instrumentation=Instrumentation())  # which has each pass verified


def outputs(batch: Sequence[Instance]) -> list[dict[str, np.ndarray]]:
    """What compiled code gives: on one thread, on two, and both with buffers that no vector is aligned to.

    Raises AssertionError if something is written beside them, and what the compiler raises.
    """
    artifact = build.make_artifact(lowered(batch), None, None)
    arrays = [a for i in batch for n, a in enumerate(i.arrays) if n not in i.constants]
    inputs = {info.name: array for info, array in zip(artifact.inputs, arrays, strict=True)}
    models = [assemble(artifact, threads=threads, snapshots={}, timings={"obj": 0.0}) for threads in THREADS]
    return [run(model, inputs, shift) for model in models for shift in (0, 1)]


def problems(batch: Sequence[Instance]) -> dict[str, str]:
    """What is wrong, by instance. Where they cannot be compiled or run together, they are in parts, down to single ones."""
    if not batch:
        return {}
    try:
        first, *others = [list(out.values()) for out in outputs(batch)]
    except (StepwellError, AssertionError, ir.MLIRError, KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        if len(batch) == 1:
            return {str(batch[0]): f"{type(error).__name__}: {str(error)[:400]}"}
        half = len(batch) // 2
        return {**problems(batch[:half]), **problems(batch[half:])}
    found = {}
    at = 0
    for single in batch:
        expected = meaningful(single.mnemonic, single.expected)
        got, *again = ([*meaningful(single.mnemonic, run[at : at + len(expected)])] for run in (first, *others))
        for n, want in enumerate(expected):
            wrong = problem(got[n], want, single.bound)
            if wrong is None and any((bits(other[n]) != bits(got[n])).any() for other in again):
                wrong = "threads or alignment change the result"
            if wrong is not None:
                found[str(single)] = f"result {n}: {wrong}"
        at += len(expected)
    return found
