"""Sizes that code computes, natively: the same as Python's, and what does not fit, divides by 0 or contradicts an assumption is told."""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import parser
from size_reference import Program, compiled, exact

import stepwell
from stepwell.backends.registry import find_backend
from stepwell.dialects.core.layout import Joined, Slot
from stepwell.dialects.core.mlir import arith, func, ir, make_context, memref
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.size_table import SIZES_FUNCTION, Status, Verdict
from stepwell.dialects.core.sizes import Assumption, Size, maximum, minimum, symbol
from stepwell.dialects.core.symbolic_shapes import constant as index
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.support.limits import Limits
from stepwell.passes.bufferize.packing import Lifetime, pack, slots
from stepwell.passes.bufferize.size_arithmetic import SizeArithmetic, constant
from stepwell.passes.bufferize.size_function import add_sizes_function
from stepwell.pipelines.routes import DEFAULT
from stepwell.runtime.loader import LoadedCode, load

NAMES = ["n", "m", "k"]
EXPRESSIONS, PROGRAMS, RUNS = 50, 4, 60
LIMITS = Limits(workspace_bytes=1 << 20, value_bytes=1 << 16)
I64 = functools.partial(ir.IntegerType.get_signless, 64)


def expression(r: random.Random, depth: int) -> int | Size:
    """A random expression of all that sizes may hold."""
    if depth == 0 or r.random() < 0.2:
        return symbol(r.choice(NAMES)) if r.random() < 0.7 else r.choice([1, 2, 3, 7, 64, 1 << 20, (1 << 62) + 1])
    a, b = (expression(r, depth - 1) for _ in range(2))
    number = r.choice([2, 3, 5, 16, -3])
    made: Sequence[Callable[[], int | Size]] = [
        lambda: a + b, lambda: a - b, lambda: a * b, lambda: a // number, lambda: a // b, lambda: b // a,
        lambda: a % abs(number), lambda: -(-a // number), lambda: maximum(a, b), lambda: minimum(a, b),
        lambda: maximum(0, a - b), lambda: a * a * number, lambda: number * a + b,
    ]  # fmt: skip
    try:
        return r.choice(made)()
    except (ZeroDivisionError, StepwellError):
        return a


def some_size(r: random.Random) -> Size:
    while not isinstance(made := expression(r, r.choice([2, 2, 2, 3])), Size):
        pass
    return made


def run_values(r: random.Random, *, negative: bool = False) -> dict[str, int]:
    """Sizes of a run: usual, 0, and such that nothing fits."""
    kinds: Sequence[Callable[[], int]] = [
        lambda: r.randrange(40), lambda: r.randrange(3), lambda: r.randrange(1 << 12), lambda: (1 << r.randrange(20, 63)) + r.randrange(-2, 3),
        lambda: (1 << 63) - 1 - r.randrange(3),
        *([lambda: -r.randrange(1 << 40)] if negative else []),
    ]  # fmt: skip
    kinds = r.choice([kinds[:1], kinds[:3], kinds])
    return {name: r.choice(kinds)() for name in NAMES}


def test_expressions_are_those_of_python() -> None:
    r = random.Random(0)
    sizes = [some_size(r) for _ in range(EXPRESSIONS)]
    relations = [Assumption(size, r.choice(["==", "!=", "<", "<=", ">", ">="]), r.choice(sizes)) for size in sizes]
    with make_context(), ir.Location.file("test", 1, 1):
        module = ir.Module.create()
        kinds = [ir.MemRefType.get(shape, I64()) for shape in ([len(NAMES)], [EXPRESSIONS, 4])]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("expressions", ir.FunctionType.get(kinds, []))
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            taken, given = block.arguments
            arithmetic = SizeArithmetic({name: memref.LoadOp(taken, [index(i)]).result for i, name in enumerate(NAMES)}.__getitem__)
            for row, (size, relation) in enumerate(zip(sizes, relations, strict=True)):
                number = arithmetic.number(size)
                flags = [number.overflows, number.divides_by_zero, arithmetic.is_broken(relation)]
                values = [number.value, *(constant(0) if flag is None else arith.ExtUIOp(I64(), flag).result for flag in flags)]
                for column, value in enumerate(values):
                    memref.StoreOp(value, given, [index(row), index(column)])
            func.ReturnOp([])
        call = compiled(module, "expressions").function("expressions", 2)
    seen = np.zeros(4, int)
    for _ in range(RUNS):
        values = run_values(r, negative=True)
        taken, given = np.array([values[name] for name in NAMES], np.int64), np.zeros((EXPRESSIONS, 4), np.int64)
        call(address(taken), address(given))
        for size, relation, (value, overflows, by_zero, broken) in zip(sizes, relations, given.tolist(), strict=True):
            meant = exact(size, values)
            assert overflows == meant.overflows, (size, values)
            if not meant.unsure:
                assert by_zero == meant.divides_by_zero, (size, values)
                seen[:2] += [meant.divides_by_zero, value < 0]
                if not meant.divides_by_zero:
                    assert value == meant.value == size.value(values), (size, values)
            seen[2] += overflows
            if not any(exact(side, values).unsure for side in (relation.left, relation.right)):
                assert broken != relation.holds(values), (relation, values)
                seen[3] += broken
    assert seen.min() > 10, seen  # divisions by 0, numbers below 0, what does not fit, assumptions that do not hold


def random_program(number: int) -> Program:
    """A program of random sizes; the first one asks nothing of `k`, which may so be too long by itself."""
    r = random.Random(number)
    plain = [4 * symbol("n"), 40 * symbol("n") * symbol("m"), 64, 1000, 8 * symbol("m"), 4 * (symbol("n") // 2), 4 * maximum(symbol("n") - 3, 0)]
    plain += [64 * (symbol("n") // symbol("k"))] if number else []
    sizes: list[int | Size] = [some_size(r) if number and r.random() < 0.1 else r.choice(plain) for _ in range(r.randrange(1, 16))]
    spans = [(first := r.randrange(12), first + r.randrange(5)) for _ in sizes]
    lifetimes = [Lifetime(64 * r.randrange(20), *span) for span in spans]
    layout = slots(sizes, lifetimes, pack(lifetimes)[0])
    joined = None
    if r.random() < 0.5 and len(layout) > 2:
        moved = [Slot(sizes[0], (), (2, 0)), Slot(sizes[1], (), (2, 8 * symbol("m")))]
        joined = Joined(symbol("n"), [*moved, *(Slot(slot.size, tuple(b for b in slot.below if b > 1)) for slot in layout[2:])])
    assumptions = [Assumption(symbol("k"), "<=", 30 + symbol("n") * symbol("m")), Assumption(some_size(r), r.choice(["!=", "<"]), some_size(r))]
    outputs = [[symbol("n"), 3], [some_size(r), symbol("m")], [symbol("k"), 2 * symbol("n") + 1]]
    outputs = outputs[: number + 1]
    derived = tuple(dict.fromkeys(size for shape in outputs for size in shape if isinstance(size, Size) and not size.is_symbol))
    limits = LIMITS.workspace_bytes, LIMITS.value_bytes
    return Program(NAMES, assumptions[: r.randrange(3) if number else 0], layout, joined, derived, outputs, *limits)


def built(program: Program, module: ir.Module) -> None:
    info = ModuleInfo(module)
    info.inputs = [("x", TensorType("f32", tuple(map(symbol, NAMES))))]
    info.outputs = [(f"y{number}", TensorType("f32", tuple(shape))) for number, shape in enumerate(program.outputs)]
    info.assumptions = program.assumptions
    table = add_sizes_function(info, program.layout, program.joined, 0, program.entries, LIMITS, module.operation.location)
    assert table.entries == program.entries + 1 + len(program.derived)
    assert table.sizes == program.derived


@functools.cache
def programs() -> tuple[Sequence[Program], LoadedCode]:
    """Random programs, and the code of their functions by their numbers."""
    made = [random_program(number) for number in range(PROGRAMS)]
    with make_context(), ir.Location.file("test", 1, 1):
        module = ir.Module.create()
        for number, program in enumerate(made):
            built(program, module)
            function: Any = next(op for op in module.body.operations if op.sym_name.value == SIZES_FUNCTION)
            function.operation.attributes["sym_name"] = ir.StringAttr.get(f"{SIZES_FUNCTION}{number}")
        return made, compiled(module, *(f"{SIZES_FUNCTION}{number}" for number in range(PROGRAMS)))


def test_tables_are_those_of_python() -> None:
    found: dict[Status, int] = {status: 0 for status in Status if status <= Status.DIMENSION}  # the others are not of `@sizes`
    for number, program in enumerate(programs()[0]):
        r, complete = random.Random(number), programs()[1].function(f"{SIZES_FUNCTION}{number}", 1, status=True)
        for _ in range(3 * RUNS):
            values = run_values(r, negative=r.random() < 0.1)
            table = np.zeros(program.entries + 1 + len(program.derived), np.int64)
            table[: len(NAMES)] = [values[name] for name in NAMES]
            verdict, (meant, expected, unsure) = Verdict.decoded(complete(address(table))), program.run(values)
            if unsure and verdict.status in (Status.DIVISION, Status.ASSUMPTION):
                continue
            assert verdict == meant, values
            found[verdict.status] += 1
            if verdict.status in (Status.OK, Status.WORKSPACE, Status.OUTPUT, Status.DIMENSION):
                assert table.tolist() == expected, values
    assert min(found.values()) > 2, found


def test_a_verdict_is_one_number() -> None:
    for verdict in (Verdict(Status.OUTPUT, 300), Verdict(Status.BROADCAST, 7, 2), Verdict(Status.MISMATCH, 0, 70_000)):
        assert Verdict.decoded(verdict.code) == verdict
    assert Verdict.decoded(0).status is Status.OK


def test_a_caller_needs_pointers_and_sizes_alone() -> None:
    """As a program in C does it: symbols go to the table, @sizes completes it, @main takes pointers."""
    text = "twice (float[n, m] x) => (float[k, m] y) { c = Concat <axis = 0> (x, x) t = Transpose (c) s = Softmax <axis = 1> (t) y = Transpose (s) }"
    source = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')
    lowered = stepwell.lower(source, "affine", specialise="never", limits=LIMITS)
    assert lowered.info.symbols == ["n", "m"]
    form = lowered.info.size_table
    assert form is not None
    assert form.places(["n", "m"])["2*n"] == form.workspace + 1
    code = load(find_backend(DEFAULT).generate(lowered, None, lambda: None).objects, ("main", SIZES_FUNCTION))
    complete, main = code.function(SIZES_FUNCTION, 1, status=True), code.packed_function("main", 5)
    for n, m in ((3, 5), (1, 1), (4, 33)):
        x, table = np.random.default_rng(n).standard_normal((n, m), np.float32), np.array([n, m] + [-1] * (form.entries - 2))
        assert complete(address(table)) == 0
        assert 4 * 2 * n * m <= table[form.workspace] <= LIMITS.workspace_bytes
        y, workspace = np.empty((table[form.workspace + 1], m), np.float32), aligned_empty(int(table[form.workspace]))
        assert main([*map(address, (x, y, np.zeros(1), workspace, table))]) == 0
        both = np.exp(np.concatenate([x, x]))
        np.testing.assert_allclose(y, both / both.sum(0), rtol=1e-5)
    table[:2] = 100, 100
    assert Verdict.decoded(complete(address(table))) == Verdict(Status.OUTPUT, 0)
