"""Small graphs as plain values: read off IR, changed, built as IR again, and run by the references of their ops."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from op_closeness import sums, terms_of

from stepwell.dialects.core.mlir import func, ir
from stepwell.dialects.core.sizes import Size, evaluated
from stepwell.dialects.core.types import TensorType, from_numpy, is_compact, is_float, to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder, GraphOp, op_class
from stepwell.dialects.graph.base import in_numbers, map_groups, takes_result_types
from stepwell.dialects.graph.callbacks import inferred_types
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.support.errors import StepwellError

ROUND_ONCE = ("add", "sub", "mul", "div", "sqrt", "reciprocal", "cast", "dequantize", "quantize", "fake_quantize")
"""Ops that round their results and nothing else, as IEEE 754 says."""


@dataclass(frozen=True)
class Ref:
    """A result of an entry of a graph."""

    entry: int
    result: int = 0


@dataclass(frozen=True)
class Argument:
    """A value that the caller gives."""

    type: TensorType

    @property
    def types(self) -> tuple[TensorType, ...]:
        return (self.type,)


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is known: written into the IR, or `stored` in the weight table."""

    array: np.ndarray
    stored: bool = False

    @property
    def types(self) -> tuple[TensorType, ...]:
        return (TensorType(from_numpy(self.array.dtype), self.array.shape),)


@dataclass(frozen=True, eq=False)
class Node:
    """An op: its operands by field (None for an absent one, a list for a variadic one), and the types of its results once they are known."""

    mnemonic: str
    operands: list[Any]
    attributes: dict[str, Any]
    types: tuple[TensorType, ...] = ()


Entry = Argument | Constant | Node


@dataclass(frozen=True, eq=False)
class Graph:
    """Entries, each of which uses those before it, and what is returned."""

    entries: tuple[Entry, ...]
    outputs: tuple[Ref, ...]

    def type(self, ref: Ref) -> TensorType:
        """The type of a value."""
        return self.entries[ref.entry].types[ref.result]

    def nodes(self) -> Iterator[Node]:
        """The ops in order."""
        return (entry for entry in self.entries if isinstance(entry, Node))

    def arguments(self) -> list[Argument]:
        """The arguments in order."""
        return [entry for entry in self.entries if isinstance(entry, Argument)]

    def symbols(self) -> list[str]:
        """The names of the sizes that only a run tells."""
        sizes = [size for argument in self.arguments() for size in argument.type.shape]
        return sorted({name for size in sizes if isinstance(size, Size) for name in size.symbols})

    def changed(self, number: int, entry: Entry) -> "Graph":
        """The graph with another entry in one place."""
        return replace(self, entries=(*self.entries[:number], entry, *self.entries[number + 1 :]))

    def __str__(self) -> str:
        with np.printoptions(threshold=8, precision=9):
            return "\n".join(f"%{n} = {described(entry)}" for n, entry in enumerate(self.entries)) + f"\nreturn {', '.join(map(named, self.outputs))}"


def named(ref: Any) -> str:
    """An operand as text."""
    if isinstance(ref, list):
        return f"[{', '.join(map(named, ref))}]"
    return "-" if ref is None else f"%{ref.entry}" + (f"#{ref.result}" if ref.result else "")


def described(entry: Entry) -> str:
    """An entry as text."""
    if isinstance(entry, Argument):
        return f"argument {entry.type}"
    if isinstance(entry, Constant):
        return f"{'weight' if entry.stored else 'constant'} {entry.types[0]} {' '.join(str(entry.array.tolist()).split())[:200]}"
    return f"{entry.mnemonic}({', '.join(map(named, entry.operands))}) {entry.attributes or ''} : {', '.join(map(str, entry.types))}"


class NotReadableError(Exception):
    """A function that holds more than graph ops without regions."""


def read(block: ir.Block, weights: WeightTable, missing: np.random.Generator | None = None) -> Graph:
    """The graph of a function's block. Parameters that the table lacks get random arrays. Raises NotReadableError."""
    entries: list[Entry] = [Argument(type_of(a)) for a in block.arguments]
    refs: dict[ir.Value, Ref] = {value: Ref(n) for n, value in enumerate(block.arguments)}
    for op in block.operations:
        operation, view = op.operation, op.operation.opview
        if operation.name == "func.return":
            return Graph(tuple(entries), tuple(refs[v] for v in operation.operands))
        if not isinstance(view, GraphOp) or len(operation.regions):
            raise NotReadableError(operation.name)
        if operation.name == "graph.constant":
            entries.append(Constant(view.evaluate([])[0]))
        elif operation.name == "graph.parameter":
            array = weights.get(ir.StringAttr(operation.attributes["id"]).value)
            if array is None:
                if missing is None:
                    raise NotReadableError("a weight that is not there")
                kind = type_of(operation.results[0])
                array = np.asarray(missing.integers(-3, 4, kind.static_shape)).astype(to_numpy(kind.dtype))
            entries.append(Constant(array, stored=True))
        else:
            operands = map_groups(refs.__getitem__, view.operand_groups())
            entries.append(Node(view.mnemonic(), operands, view.attribute_values(), view.result_types()))
        refs.update({value: Ref(len(entries) - 1, n) for n, value in enumerate(operation.results)})
    raise NotReadableError("no terminator")


def build(graph: Graph) -> tuple[ir.Module, WeightTable]:
    """The graph as `@main` of a module in the current context, with inferred types. Raises InferenceError where ops do not fit."""
    weights, module = WeightTable(), ir.Module.create()
    types = [argument.type.to_mlir() for argument in graph.arguments()]
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", ir.FunctionType.get(types, []))
    block = main.add_entry_block()
    arguments = iter(block.arguments)
    values: dict[Ref, ir.Value] = {}
    with ir.InsertionPoint(block):
        b = GraphBuilder(weights)
        for number, entry in enumerate(graph.entries):
            if isinstance(entry, Argument):
                results = [next(arguments)]
            elif isinstance(entry, Constant):
                results = [b.weight("w", entry.array) if entry.stored else b.literal(entry.array)]
            else:
                cls = op_class(entry.mnemonic)
                given = list(entry.types) if cls.infer is None else None
                results = list(b.create(cls, map_groups(values.__getitem__, entry.operands), entry.attributes, given).operation.results)
            values.update({Ref(number, n): value for n, value in enumerate(results)})
        outputs = [values[ref] for ref in graph.outputs]
        func.ReturnOp(outputs)
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [v.type for v in outputs]))
    return module, weights


def block_of(module: ir.Module) -> ir.Block:
    """The block of `@main` of a module that `build` made."""
    return module.body.operations[0].operation.regions[0].blocks[0]


def shape_in_numbers(kind: TensorType, sizes: Mapping[str, int], unknown: int) -> tuple[int, ...]:
    """The shape of a type, with numbers for its symbols and one for what is unknown."""
    return tuple(unknown if d is None else evaluated(d, sizes) if isinstance(d, Size) else d for d in kind.shape)


@dataclass
class Noise:
    """Random roundings: each op's result, and what a sum adds up, is off by up to a unit of its type (D. S. Parker, "Monte Carlo Arithmetic",
    1997). How far results then scatter is how well the graph determines them."""

    generator: np.random.Generator

    def __call__(self, array: np.ndarray, dtype: str, units: float = 1) -> np.ndarray:
        """An array of f64 that stands for one of `dtype`, rounded at random."""
        eps = float(ml_dtypes.finfo(to_numpy(dtype)).eps)
        with np.errstate(all="ignore"):
            return np.asarray(array * (1 + units * eps * self.generator.uniform(-1, 1, array.shape)))


def fit(graph: Graph, arrays: Sequence[np.ndarray], sizes: Mapping[str, int]) -> bool:
    """Whether the ops take arguments of these sizes: a reference may be more lenient than its op."""
    kinds: dict[Ref, TensorType] = {}
    given = iter(arrays)
    for number, entry in enumerate(graph.entries):
        types: Sequence[TensorType] = entry.types
        if isinstance(entry, Argument):
            types = [entry.type.with_shape(next(given).shape)]
        elif isinstance(entry, Node) and op_class(entry.mnemonic).infer is not None:
            try:
                attributes = {name: in_numbers(value, sizes) for name, value in entry.attributes.items()}
                types = inferred_types(op_class(entry.mnemonic), map_groups(kinds.__getitem__, entry.operands), attributes)
            except StepwellError:
                return False
        kinds.update({Ref(number, n): kind for n, kind in enumerate(types)})
    return True


def run(graph: Graph, arrays: Sequence[np.ndarray], sizes: Mapping[str, int], *, wide: bool = False, noise: Noise | None = None) -> list[np.ndarray]:
    """What the graph returns for its arguments, by the references of its ops; with `wide`, all floats are f64.

    Raises StepwellError, and what numpy raises, where an op has no meaning for its data.
    """
    values: dict[Ref, np.ndarray] = {}
    given = iter(arrays)
    for number, entry in enumerate(graph.entries):
        if isinstance(entry, Node):
            results = _results(graph, entry, values, sizes, wide, noise)
        else:
            results = [next(given) if isinstance(entry, Argument) else entry.array]
            if wide and is_float(entry.types[0].dtype):
                results = [results[0].astype(np.float64)]
                if noise is not None and isinstance(entry, Constant):
                    results = [noise(results[0], entry.types[0].dtype)]
        values.update({Ref(number, n): array for n, array in enumerate(results)})
    return [values[ref] for ref in graph.outputs]


def _results(
    graph: Graph, node: Node, values: Mapping[Ref, np.ndarray], sizes: Mapping[str, int], wide: bool, noise: Noise | None
) -> list[np.ndarray]:  # fmt: skip
    cls = op_class(node.mnemonic)
    if cls.reference is None:
        raise NotReadableError(f"{node.mnemonic} has no reference meaning")
    attributes, types = {name: in_numbers(value, sizes) for name, value in node.attributes.items()}, node.types
    if wide:
        if node.mnemonic == "bit_cast" or any(is_compact(t.dtype) for t in types):
            raise NotReadableError(f"{node.mnemonic} has no meaning in a wide type")
        types = tuple(t.with_dtype("f64") if is_float(t.dtype) else t for t in types)
        if node.mnemonic == "cast" and is_float(str(attributes["to"])):
            attributes["to"] = "f64"
    noisy = noise is not None and cls.flops is not no_arithmetic
    terms = 1.0  # that are added up one after the other, in any order
    if sums(node.mnemonic):
        arrays = map_groups(values.__getitem__, node.operands)
        shape = shape_in_numbers(node.types[0], sizes, 1)
        terms = float(terms_of(node.mnemonic, arrays, attributes, np.empty(shape, np.int8 if not is_float(types[0].dtype) else np.float32)))

    def operand(ref: Ref) -> np.ndarray:
        array, dtype = values[ref], graph.type(ref).dtype
        if noisy and noise is not None and is_float(dtype) and node.mnemonic not in ROUND_ONCE:
            return noise(array, dtype, 0.5 * math.sqrt(terms))
        return array

    extra = {"result_types": types} if takes_result_types(cls.reference) else {}
    with np.errstate(all="ignore"):
        out = cls.reference(*map_groups(operand, node.operands), **attributes, **extra)
    results = [np.asarray(array) for array in (out if isinstance(out, tuple) else (out,))]
    made = [array.astype(to_numpy(kind.dtype), copy=False) for array, kind in zip(results, types, strict=True)]
    if noisy and noise is not None:
        made = [noise(a, t.dtype) if is_float(t.dtype) else a for a, t in zip(made, node.types, strict=True)]
    return made
