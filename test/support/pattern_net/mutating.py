"""Graphs in which a pattern is known to match, those of the FileCheck tests of its pass, and what becomes of them by random changes."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pattern_net.graphs import Argument, Constant, Entry, Graph, Node, NotReadableError, Ref, build, read

from stepwell.dialects.core.kernel_info import function_around
from stepwell.dialects.core.mlir import attribute_fields, ir, make_context, operand_fields
from stepwell.dialects.core.sizes import symbol
from stepwell.dialects.core.types import TensorType, from_numpy, is_float, is_integer, to_numpy
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import op_class
from stepwell.dialects.support.errors import StepwellError
from stepwell.passes.framework.registry import PassState, passes
from stepwell.passes.framework.rewriting import NoMatch, Pattern, PatternPass, apply_patterns

TESTS = Path(__file__).resolve().parents[2] / "passes"
FLOATING, WHOLE = ("f32", "f64", "f16", "bf16"), ("i32", "i64", "i16", "i8", "ui8")
IN_SIZES = ("shape", "sizes", "high", "repeats")
NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.25, 4.0, 8.0)
MOST = 4096  # elements of a value of a graph that is taken


@cache
def seeds(pass_name: str) -> tuple[Graph, ...]:
    """The functions of graph ops in the FileCheck tests whose commands name a pass, and what they are while it rewrites them."""
    flag = re.compile(rf"(?:--|(?<![\w-])){re.escape(pass_name)}(?![\w-])")
    found: list[Graph] = []
    for file in sorted(TESTS.rglob("*.mlir")):
        text = file.read_text()
        if any(flag.search(line) for line in text.splitlines() if "RUN:" in line):
            for part in text.split("// -----"):
                found += functions(part)
    cls = passes()[pass_name]
    assert issubclass(cls, PatternPass)
    return tuple(stage for graph in found for stage in (graph, *stages(graph, cls)))


def stages(graph: Graph, cls: type[PatternPass]) -> list[Graph]:
    """What a graph is after each rewrite of a pass but the last: some patterns match only what others make."""
    found: list[Graph] = []
    rewrites = 0

    def watched(p: Pattern) -> Pattern:
        def rewrite(op: Any, rw: Any) -> Any:
            nonlocal rewrites
            if rewrites > len(found):
                around = function_around(op.operation)
                assert around is not None
                found.extend([read(around.regions[0].blocks[0], rw.weights)] * (rewrites - len(found)))
            result = p.rewrite(op, rw)
            rewrites += not isinstance(result, NoMatch)
            return result

        return replace(p, rewrite=rewrite)

    with make_context(), ir.Location.name("seed"):
        try:
            module, weights = build(graph)
            apply_patterns(module.operation, [watched(p) for p in cls.all_patterns()], PassState(weights=weights), top_down=cls.top_down)
        except (StepwellError, ir.MLIRError):
            pass  # only what is there by then counts
    return list(dict.fromkeys(found))


def functions(text: str) -> Iterator[Graph]:
    """The functions of a module that are graphs of small values."""
    with make_context(), ir.Location.name("seed"):
        try:
            module = ir.Module.parse(text)
        except (ir.MLIRError, StepwellError):
            return
        for op in module.body.operations:
            if op.operation.name == "func.func" and len(op.regions[0].blocks):
                try:
                    graph = read(op.regions[0].blocks[0], WeightTable(), np.random.default_rng(1))
                except (NotReadableError, StepwellError, KeyError):
                    continue
                if all(t.size is None or not isinstance(t.size, int) or t.size <= MOST for e in graph.entries for t in e.types):
                    yield graph


Change = Callable[[Graph, np.random.Generator], "Graph | None"]


def inputs(graph: Graph, change: Callable[[Entry], Entry], attributes: Callable[[str, Any], Any] = lambda _, value: value) -> Graph:
    """The graph with its arguments and constants changed, and the attributes of its ops; the types of results are to be inferred again."""
    entries = tuple(
        replace(e, attributes={k: attributes(k, v) for k, v in e.attributes.items()}) if isinstance(e, Node) else change(e) for e in graph.entries
    )
    return replace(graph, entries=entries)


def retyped(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With another element type for all values of one."""
    there = sorted({t.dtype for e in graph.entries for t in e.types if t.dtype in (*FLOATING, *WHOLE)})
    if not there:
        return None
    old = str(generator.choice(there))
    new = str(generator.choice([t for t in (FLOATING if old in FLOATING else WHOLE) if t != old]))

    def change(e: Entry) -> Entry:
        if isinstance(e, Argument):
            return Argument(e.type.with_dtype(new)) if e.type.dtype == old else e
        return replace(e, array=e.array.astype(to_numpy(new))) if isinstance(e, Constant) and e.types[0].dtype == old else e

    return inputs(graph, change, lambda _, value: new if value == old else value)


def resized(graph: Graph, generator: np.random.Generator, *, all_of_them: bool = True) -> Graph | None:
    """With another number for one size: wherever it is, or in one dimension of one argument."""
    places = [(n, i) for n, e in enumerate(graph.entries) if isinstance(e, (Argument, Constant)) for i, d in enumerate(e.types[0].shape)
              if isinstance(d, int) and (all_of_them or isinstance(e, Argument))]  # fmt: skip
    if not places:
        return None
    number, axis = places[int(generator.integers(len(places)))]
    old, new = graph.entries[number].types[0].shape[axis], int(generator.integers(1, 6))
    if all_of_them and old == 1:
        return None

    def change(e: Entry) -> Entry:
        if not all_of_them and e is not graph.entries[number]:
            return e
        shape = tuple(new if d == old and (all_of_them or i == axis) else d for i, d in enumerate(e.types[0].shape))
        if isinstance(e, Argument):
            return Argument(e.type.with_shape(shape))
        assert isinstance(e, Constant)
        wanted = [d for d in shape if isinstance(d, int)]
        return replace(e, array=e.array if shape == e.array.shape else np.resize(e.array, wanted).astype(e.array.dtype))

    def sizes(name: str, value: Any) -> Any:
        return tuple(new if d == old else d for d in value) if all_of_them and name in IN_SIZES and isinstance(value, tuple) else value

    return inputs(graph, change, sizes)


def resized_once(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With another number for one dimension of one argument."""
    return resized(graph, generator, all_of_them=False)


def freed(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With a size of its arguments that only a run tells: a symbol, or unknown."""
    old = sorted({d for e in graph.arguments() for d in e.type.shape if isinstance(d, int)})
    if not old:
        return None
    size = int(generator.choice(old))
    new = symbol("nmk"[len(graph.symbols()) % 3]) if generator.random() < 0.75 else None
    where = int(generator.integers(3))  # in all arguments, or along one axis alone

    def change(e: Entry) -> Entry:
        if isinstance(e, Constant):
            return e
        return Argument(e.types[0].with_shape(tuple(new if d == size and where in (2, min(i, 1)) else d for i, d in enumerate(e.types[0].shape))))

    def sizes(name: str, value: Any) -> Any:
        open_ = -1 if new is None else new
        if name not in ("shape", "sizes") or not isinstance(value, tuple):
            return value
        return tuple(open_ if d == size and where in (2, min(i, 1)) else d for i, d in enumerate(value))

    return inputs(graph, change, sizes)


def constant_places(graph: Graph) -> list[int]:
    """Where constants are."""
    return [n for n, e in enumerate(graph.entries) if isinstance(e, Constant)]


def drawn_constant(graph: Graph, generator: np.random.Generator) -> tuple[int, Constant] | None:
    """The place of one of the constants, drawn at random, and what is there; None if there are none."""
    places = constant_places(graph)
    if not places:
        return None
    number = int(generator.choice(places))
    entry = graph.entries[number]
    assert isinstance(entry, Constant)
    return number, entry


def with_numbers(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With other numbers in a constant."""
    drawn = drawn_constant(graph, generator)
    if drawn is None:
        return None
    number, entry = drawn
    array, kind, style = entry.array, entry.types[0], int(generator.integers(5))
    if style == 0 and array.size:
        new = np.full(array.shape, array.reshape(-1)[int(generator.integers(array.size))])
    elif style == 1 and is_float(kind.dtype):
        new = array.astype(np.float64) * 2.0 ** generator.integers(-2, 3, array.shape)
    elif style == 2 and is_float(kind.dtype):
        new = array.astype(np.float64) * generator.uniform(0.5, 2, array.shape)
    elif is_integer(kind.dtype) or is_float(kind.dtype):
        numbers = [n for n in NUMBERS if is_float(kind.dtype) or (n == int(n) and (n >= 0 or kind.dtype.startswith("i")))]
        new = generator.choice(numbers, array.shape if style == 3 else ()) + np.zeros(array.shape)
    else:
        return None
    return graph.changed(number, replace(entry, array=np.asarray(new).astype(array.dtype)))


def of_other_shape(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With a constant of fewer or more dimensions that broadcasts alike."""
    drawn = drawn_constant(graph, generator)
    if drawn is None:
        return None
    number, entry = drawn
    array = entry.array
    if array.size == 1:
        new = array.reshape((1,) * int(generator.integers(0, 4)))
    elif array.ndim and generator.random() < 0.5 and array.shape[0] == 1:
        new = array[0]
    else:
        axis = int(generator.integers(array.ndim))
        new = np.take(array, [0], axis=axis)
    return graph.changed(number, replace(entry, array=np.asarray(new)))


def stored_elsewhere(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With a constant in the weight table instead of the IR, or the other way round."""
    drawn = drawn_constant(graph, generator)
    if drawn is None:
        return None
    number, entry = drawn
    return graph.changed(number, replace(entry, stored=not entry.stored))


def with_user(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With a value returned that was not."""
    inner = [ref for n, e in enumerate(graph.entries) if isinstance(e, Node) for i in range(len(e.types)) if (ref := Ref(n, i)) not in graph.outputs]
    return replace(graph, outputs=(*graph.outputs, inner[int(generator.integers(len(inner)))])) if inner else None


def with_argument(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With an argument in the place of a constant."""
    drawn = drawn_constant(graph, generator)
    if drawn is None:
        return None
    number, entry = drawn
    return graph.changed(number, Argument(TensorType(from_numpy(entry.array.dtype), entry.array.shape)))


def with_attribute(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With another number in an attribute that is a float."""
    places = [(n, name) for n, e in enumerate(graph.entries) if isinstance(e, Node) for name, value in e.attributes.items() if type(value) is float]
    if not places:
        return None
    number, name = places[int(generator.integers(len(places)))]
    entry = graph.entries[number]
    assert isinstance(entry, Node)
    return graph.changed(number, replace(entry, attributes={**entry.attributes, name: float(generator.choice(NUMBERS))}))


def with_powers_of_four(graph: Graph) -> Graph:
    """With powers of four in the place of the floats in constants, of about their size: their products, quotients and roots are exact."""

    def change(e: Entry) -> Entry:
        if not isinstance(e, Constant) or not is_float(e.types[0].dtype):
            return e
        wide = e.array.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.sign(wide) * 4.0 ** np.clip(np.round(np.log2(np.abs(wide)) / 2), -2, 2)
        return replace(e, array=np.where((wide == 0) | ~np.isfinite(wide), wide, near).astype(e.array.dtype))

    return inputs(graph, change)


def signature(mnemonic: str) -> tuple[Any, ...]:
    """The fields of an op."""
    cls = op_class(mnemonic)
    return (operand_fields(cls), tuple(field.name for field in attribute_fields(cls)))


def with_root(graph: Graph, roots: Sequence[str]) -> Iterator[Graph]:
    """The graph with one of its ops replaced by a root of the same fields, in each place where there is such an op."""
    for number, entry in enumerate(graph.entries):
        if isinstance(entry, Node) and entry.mnemonic not in roots:
            for root in roots:
                if signature(root) == signature(entry.mnemonic):
                    yield graph.changed(number, replace(entry, mnemonic=root))


def with_sibling(graph: Graph, generator: np.random.Generator) -> Graph | None:
    """With another op of the same fields in the place of one, of those in the graph."""
    names = sorted({node.mnemonic for node in graph.nodes()})
    found = list(with_root(graph, [str(generator.choice(names))])) if names else []
    return found[int(generator.integers(len(found)))] if found else None


CHANGES: Sequence[Change] = (
    retyped, resized, resized_once, freed, with_numbers, with_numbers, of_other_shape, stored_elsewhere, with_user, with_argument, with_sibling,
    with_attribute,
)  # fmt: skip


def mutated(graph: Graph, seed: int) -> Graph | None:
    """The graph after one to three random changes; None where one was not possible. Its ops may not fit each other any more."""
    generator = np.random.default_rng(seed)
    result: Graph | None = graph
    for _ in range(int(generator.integers(1, 4))):
        if result is not None:
            result = CHANGES[int(generator.integers(len(CHANGES)))](result, generator)
    return result
