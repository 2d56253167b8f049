"""The attributes of a module about the whole model, and of @main about each argument and result."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stepwell.dialects.core.attribute_kinds import (
    COUNT,
    COUNTS,
    FIELD_TYPES,
    FLAG,
    PAIRS,
    SIZES,
    TEXT,
    TEXTS,
    TYPED_NAMES,
    Kind,
    is_count,
    is_text,
    python_value,
    record,
    records,
)
from stepwell.dialects.core.attributes import Sizes, to_attribute
from stepwell.dialects.core.carried import PREFIXES, Carried, Carrier
from stepwell.dialects.core.index_checks import IndexCheck, complaint
from stepwell.dialects.core.layout import Slot
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.segments import Segment
from stepwell.dialects.core.size_parser import parse, parse_assumption
from stepwell.dialects.core.size_table import SizeTable
from stepwell.dialects.core.sizes import Assumption, Dim, Size
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.errors import InferenceError


def _is_slot(entry: object) -> bool:
    """Whether an entry has the form `[size, numbers of the slots below …]`."""
    return isinstance(entry, tuple) and len(entry) > 0 and (is_text(entry[0]) or is_count(entry[0])) and all(map(is_count, entry[1:]))


def _slots(attribute: ir.Attribute) -> list[Slot]:
    entries = python_value(attribute, lambda value: isinstance(value, tuple) and all(map(_is_slot, value)))
    try:
        return [Slot(parse(size) if isinstance(size, str) else size, tuple(below)) for size, *below in entries]
    except InferenceError as error:
        raise ValueError(error.args[0]) from None


def _assumptions(attribute: ir.Attribute) -> list[Assumption]:
    try:
        return [parse_assumption(text) for text in TEXTS.decode(attribute)]
    except InferenceError as error:
        raise ValueError(error.args[0]) from None


SLOTS: Kind[list[Slot]] = Kind(
    'slots as [size, numbers of the slots below …], such as ["4*n", 0]', _slots,
    lambda slots: to_attribute([(str(slot.size), *slot.below) for slot in slots]),
)  # fmt: skip


def _in_tuple(kind: Kind[Any]) -> Kind[Any]:
    return Kind(kind.expected, lambda attribute: tuple(kind.decode(attribute)), lambda values: kind.encode(list(values)))


def _grows(attribute: ir.Attribute) -> tuple[tuple[int, int | Size], ...]:
    return tuple((slot.below[0], slot.size) for slot in _slots(attribute))


_SEGMENT_FIELDS: dict[Any, Kind[Any]] = {
    str: TEXT,
    int: COUNT,
    tuple[int | Size, ...]: replace(FIELD_TYPES[tuple[int | Size, ...]], encode=lambda sizes: to_attribute(sizes, Sizes)),
    tuple[Slot, ...]: _in_tuple(SLOTS),
    tuple[tuple[int, int], ...]: _in_tuple(PAIRS),
    tuple[tuple[int, int | Size], ...]: Kind(SLOTS.expected, _grows, lambda grows: SLOTS.encode([Slot(size, (slot,)) for slot, size in grows])),
    tuple[tuple[int | Size, ...], ...]: _in_tuple(SIZES),
}
SEGMENTS: Kind[list[Segment]] = records(
    record(Segment, ("boxes", "grows", "shapes"), _SEGMENT_FIELDS), "a list of segments as {nodes, start, sizes, slots, outputs}"
)
ASSUMPTIONS: Kind[list[Assumption]] = Kind(
    'relations of sizes, such as ["n <= 2*m"]', _assumptions, lambda assumptions: to_attribute(list(map(str, assumptions)))
)
INDEX_CHECKS: Kind[list[IndexCheck]] = records(
    record(IndexCheck, IndexCheck.__annotations__), f"a list of checks ({', '.join(IndexCheck.__annotations__)}) of hidden results counted from 0",
    complaint,
)  # fmt: skip


class ModuleInfo(Carrier):
    """The attributes of a module about the whole model."""

    on, what = ("builtin.module",), "a module"

    inputs: Carried[Sequence[tuple[str, TensorType]]] = Carried("stepwell.inputs", TYPED_NAMES)
    """Names and types of the model's inputs. Types lose their signedness below `graph`, and @main loses its results."""
    outputs: Carried[Sequence[tuple[str, TensorType]]] = Carried("stepwell.outputs", TYPED_NAMES)
    any_integers: Carried[Sequence[str]] = Carried("stepwell.any_integers", TEXTS, ())
    """Integer inputs that may hold any number of their type, because they are not used as indices, sizes or counts."""
    nodes: Carried[Sequence[str]] = Carried("stepwell.nodes", TEXTS, ())
    """The names of the ONNX nodes. Number i is line i + 1 of a location."""
    size_hints: Carried[Mapping[str, int]] = Carried("stepwell.size_hints", COUNTS, {})
    """Typical values of symbols. They guide schedules and the order of buffers in memory, never legality."""
    checks: Carried[Sequence[IndexCheck]] = Carried("stepwell.checks", INDEX_CHECKS, ())
    """The checks of @main's hidden results, which follow the outputs."""
    arena: Carried[Mapping[str, int]] = Carried("stepwell.arena", COUNTS, {})
    """The offset in bytes of each weight in the arena."""
    located: Carried[bool] = Carried("stepwell.located", FLAG, False)
    """Whether code reads the address of each weight from a table instead of using these offsets."""
    weights_bytes: Carried[int] = Carried("stepwell.weights_bytes", COUNT, 0)
    """The total size of the weights in bytes."""
    workspace_bytes: Carried[int] = Carried("stepwell.workspace_bytes", COUNT, 0)
    """The size in bytes of the memory for intermediate results of a run."""
    workspace_lower_bound: Carried[int] = Carried("stepwell.workspace_lower_bound", COUNT, 0)
    """A lower bound in bytes of that size, for any assignment of offsets."""

    elements: Carried[Sequence[tuple[Dim, ...]]] = Carried("stepwell.elements", SIZES, ())
    """For each input, its elements that are symbols in types and attributes, `?` for others; empty if there are none."""
    assumptions: Carried[Sequence[Assumption]] = Carried("stepwell.assumptions", ASSUMPTIONS, ())
    """Relations between sizes that the types and the code of the module rely on."""
    size_table: Carried[SizeTable | None] = Carried("stepwell.size_table", record(SizeTable), None)
    """The form of the table that `@sizes` completes, if there is one."""

    segments: Carried[Sequence[Segment]] = Carried("stepwell.segments", SEGMENTS, ())
    """The segments of the program, in order of execution."""

    bound: Carried[Sequence[tuple[int, int]]] = Carried("stepwell.bound", PAIRS, ())
    """Pairs of an input and the output that the next call passes for it, by number; after `append-in-place` the pairs that share memory."""

    table_entries: Carried[int] = Carried("stepwell.table_entries", COUNT, 0)
    """The number of entries in a run's table if code calls the runtime; otherwise 0."""

    @property
    def weight_offsets(self) -> list[int]:
        """The offsets of weights in the arena, ascending; an empty weight may share its offset with the next."""
        return sorted(set(self.arena.values()))

    @property
    def symbols(self) -> list[str]:
        """The symbols that are whole sizes or elements of the model's inputs, in the order of the inputs."""
        elements = [str(size) for sizes in self.elements for size in sizes if isinstance(size, Size) and size.is_symbol]
        return list(dict.fromkeys([*(symbols_of(self.inputs) if self.has_signature else []), *elements]))

    @property
    def has_signature(self) -> bool:
        """Whether both inputs and outputs are recorded."""
        return all(field.name in self.attributes for field in (ModuleInfo.inputs, ModuleInfo.outputs))

    def problems(self) -> Iterator[str]:
        size = self.weights_bytes
        for weight, offset in self.arena.items():
            if offset > size:
                names = ModuleInfo.arena.name, ModuleInfo.weights_bytes.name
                yield f"attribute '{names[0]}': weight '{weight}' begins at byte {offset}, but '{names[1]}' is {size}"


def symbols_of(inputs: Iterable[tuple[str, TensorType]]) -> list[str]:
    """The symbols that are whole sizes of inputs, in the order of the inputs."""
    return list(dict.fromkeys(str(size) for _, kind in inputs for size in kind.shape if isinstance(size, Size) and size.is_symbol))


class ValueInfo(Carrier):
    """The attributes of one argument or result of a function. Lists of these are read from a function, changed, and written back."""

    what = "an argument or a result of a function"

    name: Carried[str | None] = Carried("stepwell.name", TEXT, None)
    """The name in the model."""
    byte_count: Carried[int | None] = Carried("stepwell.bytes", COUNT, None)
    """The bytes that the memory of @main's weights or workspace must have."""

    symbols: Carried[Sequence[str]] = Carried("stepwell.symbols", TEXTS, ())
    """The symbols that the first numbers of a memory argument of @main hold; offsets in the workspace follow."""

    def __init__(self, *, name: str | None = None, byte_count: int | None = None, symbols: Sequence[str] = ()) -> None:
        self.attributes: dict[str, ir.Attribute] = {}
        self._where = "a value"
        self.name, self.byte_count = name, byte_count
        if symbols:
            self.symbols = symbols

    @property
    def where(self) -> str:
        return self._where

    @staticmethod
    def arguments(function: ir.Operation | ir.OpView) -> "list[ValueInfo]":
        """One for each argument of a `func.func`."""
        return _values(function, _ARGUMENTS, "argument")

    @staticmethod
    def results(function: ir.Operation | ir.OpView) -> "list[ValueInfo]":
        """One for each result of a `func.func`."""
        return _values(function, _RESULTS, "result")

    @staticmethod
    def set_arguments(function: ir.OpView, values: "Sequence[ValueInfo]") -> None:
        """Write these to the arguments of a function."""
        function.attributes[_ARGUMENTS] = ir.ArrayAttr.get([ir.DictAttr.get(value.attributes) for value in values])

    @staticmethod
    def set_results(function: ir.OpView, values: "Sequence[ValueInfo]") -> None:
        """Write these to the results of a function."""
        function.attributes[_RESULTS] = ir.ArrayAttr.get([ir.DictAttr.get(value.attributes) for value in values])

    @staticmethod
    def names(values: "Sequence[ValueInfo]", prefix: str) -> list[str]:
        """Their names; `prefix` and the number for those without one."""
        return [f"{prefix}{i}" if value.name is None else value.name for i, value in enumerate(values)]


_ARGUMENTS, _RESULTS = "arg_attrs", "res_attrs"  # MLIR's names for the attributes of a function's arguments and results


def _values(function: ir.Operation | ir.OpView, attribute: str, word: str) -> list[ValueInfo]:
    op = function.operation
    if attribute in op.attributes:
        entries = [{entry.name: entry.attr for entry in ir.DictAttr(values)} for values in op.attributes[attribute]]
    else:
        kind = ir.FunctionType(op.attributes["function_type"].value)
        entries = [{} for _ in (kind.inputs if attribute == _ARGUMENTS else kind.results)]
    values = [ValueInfo() for _ in entries]
    for i, (value, entry) in enumerate(zip(values, entries, strict=True)):
        value.attributes, value._where = entry, f"'{op.name}' at {op.location}, {word} {i}"
    return values


class FunctionInfo(Carrier):
    """The attributes with a function's `ValueInfo`s, which are checked together."""

    on, what = ("func.func", "llvm.func"), "a function"

    def problems(self) -> Iterator[str]:
        """The problems of the attributes of arguments and results: unknown names, or values of another form."""
        known = ValueInfo.carried()
        for attribute, word in ((_ARGUMENTS, "argument"), (_RESULTS, "result")):
            for i, values in enumerate(self.attributes.get(attribute, ())):
                for entry in ir.DictAttr(values):
                    if entry.name in known and known[entry.name].read(entry.attr)[0]:
                        yield f"{word} {i}: {known[entry.name].read(entry.attr)[0]}"
                    elif entry.name not in known and entry.name.startswith(PREFIXES):
                        yield f"{word} {i}: there is no attribute '{entry.name}'; expected {', '.join(known)} here"
