"""`@main` of a model that is being imported: its module, its arguments, its results, and the attributes that describe them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stepwell.dialects.core.locations import MODEL_FILE
from stepwell.dialects.core.mlir import func, ir, ops_below
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import TensorType, is_integer, type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.data_sizes import KeepOp
from stepwell.dialects.graph.integer_inputs import takes_any_integer
from stepwell.frontends.builder import ModelBuilder, Value


class MainFunction:
    """`@main` in a new module at level `graph`. Ops are built in a `with self.building()` block, which ends with `finish`."""

    def __init__(self, context: ir.Context, builder: ModelBuilder, inputs: Sequence[tuple[str, TensorType]]) -> None:
        self.builder, self.inputs = builder, list(inputs)
        self.outputs: list[tuple[str, TensorType]] = []
        self.elements: list[tuple[Size | None, ...]] = []
        """For each input, its elements that types and attributes have as symbols, None for the others; empty if it has none."""
        self._context = context
        with context, ir.Location.file(MODEL_FILE, 0, 0) as location:
            self.module = ir.Module.create()
            with ir.InsertionPoint(self.module.body):
                self._main = func.FuncOp("main", ([t.to_mlir() for _, t in self.inputs], []))
            self.block = self._main.add_entry_block([ir.Location.name(name, childLoc=location) for name, _ in self.inputs])
        self.arguments: list[Value] = list(self.block.arguments)
        builder.inputs.update(zip(self.arguments, (name for name, _ in self.inputs), strict=True))
        builder.origins.block = self.block

    @contextmanager
    def building(self) -> Iterator[None]:
        """Ops that are built inside go to the end of the function."""
        with self._context, ir.Location.file(MODEL_FILE, 0, 0), ir.InsertionPoint(self.block):
            yield

    def finish(self, results: Sequence[tuple[str, Value]], nodes: Sequence[str]) -> None:
        """Return `results`, and state names, types, and the names of the `nodes` that locations refer to by index; called once, while building."""
        func.ReturnOp([value for _, value in results])
        self._keep_what_gives_sizes()
        self.outputs = [(name, type_of(value)) for name, value in results]
        self.builder.known_values.release()
        self._describe()
        info = ModuleInfo(self.module)
        info.nodes = list(nodes)
        self.elements = self._used_elements()
        if any(self.elements):
            info.elements = self.elements
        rows = zip(self.inputs, self.arguments, self.elements, strict=True)
        any_integers = [name for (name, kind), a, used in rows if is_integer(kind.dtype) and not used and takes_any_integer(a)]
        if any_integers:
            info.any_integers = any_integers

    def _keep_what_gives_sizes(self) -> None:
        """Keep conditionals and loops whose results define sizes that other ops use, because only they determine these (`graph.keep`)."""
        ops = ops_below(self._main.operation)
        given = [(value, size) for op in ops if op.name in ("graph.if", "graph.loop") for value in op.results for size in type_of(value).shape]
        if not given:
            return
        named = {name for op in ops for size in _sizes_in_attributes(op) for name in size.symbols}
        for value in dict.fromkeys(value for value, size in given if isinstance(size, Size) and str(size) in named):
            with ir.InsertionPoint(value.owner), value.location:
                made = self.builder.create(KeepOp, [value], {}, []).operation
            made.move_after(value.owner)

    def _used_elements(self) -> list[tuple[Size | None, ...]]:
        """For each input the symbols of its elements, None for one that no type or attribute uses; empty if none is used."""
        made = self.builder.elements
        used: set[str] = set()
        for op in ops_below(self._main.operation) if made else ():
            sizes = [size for result in op.results for size in type_of(result).shape]
            sizes += _sizes_in_attributes(op)
            used.update(name for size in sizes if isinstance(size, Size) for name in size.symbols)
        found = [tuple(symbol if str(symbol) in used else None for symbol in made.get(argument, ())) for argument in self.arguments]
        return [symbols if any(symbol is not None for symbol in symbols) else () for symbols in found]

    def _describe(self) -> None:
        """Set the type of the function and the names of its arguments and results."""
        taken, given = ([t.to_mlir() for _, t in side] for side in (self.inputs, self.outputs))
        self._main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(taken, given))
        ValueInfo.set_arguments(self._main, [ValueInfo(name=name) for name, _ in self.inputs])
        ValueInfo.set_results(self._main, [ValueInfo(name=name) for name, _ in self.outputs])


def _sizes_in_attributes(op: ir.Operation) -> list[Size]:
    """The sizes in the attributes of an op that are expressions of symbols."""
    attributes = op.opview.attribute_values() if isinstance(op.opview, GraphOp) else {}
    return [size for value in attributes.values() if isinstance(value, tuple) for size in value if isinstance(size, Size)]
