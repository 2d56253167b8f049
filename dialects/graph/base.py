"""The `graph` dialect and the base class of its operations: fields, inference, verification and reference in one place."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from stepwell.dialects.core.attributes import Sizes, sizes_value, to_attribute, to_python
from stepwell.dialects.core.mlir import (
    Attribute,
    Dialect,
    Operand,
    Operation,
    OptionalOperand,
    Pure,
    Region,
    Result,
    VariadicOperand,
    VariadicResult,
    attribute_fields,
    create_operation,
    define_group_accessors,
    ir,
    operand_fields,
    register_dialect,
    registered_dialects,
    report,
    result_fields,
)
from stepwell.dialects.core.sizes import Dim, Size, differ, evaluated, holds
from stepwell.dialects.core.types import TensorType, from_numpy, is_emulated, to_numpy
from stepwell.dialects.graph.callbacks import inferred_types, referred
from stepwell.dialects.graph.emulation import emulated_in, needs_emulation
from stepwell.dialects.graph.flops import no_arithmetic, one_per_element
from stepwell.dialects.graph.index_operand import IndexOperand
from stepwell.dialects.graph.numerics import narrow, wide
from stepwell.dialects.graph.products import SumOfProducts
from stepwell.dialects.graph.traits import Elementwise, Fusion, JoinsData, KeepsChannels, KeepsFinite, MovesData, SumsProducts, Trait
from stepwell.dialects.graph.value_range import ANY, Range, union
from stepwell.dialects.support.errors import InferenceError, StepwellError
from stepwell.dialects.support.extensions import extension

__all__ = [
    "Elementwise", "Fusion", "Graph", "GraphOp", "IndexOperand", "InferredTypes", "KeepsChannels", "KeepsFinite", "MovesData", "Operand",
    "OptionalOperand", "Pure", "Region", "Result", "SingleOperand", "Sizes", "Trait", "VariadicOperand", "VariadicResult", "op_class",
    "op_classes", "ops_with",
]  # fmt: skip

InferredTypes: TypeAlias = TensorType | tuple[TensorType, ...]

KIND_NAMES = {
    ir.IntegerAttr: "an integer", ir.FloatAttr: "a float such as 1.0 : f64", ir.BoolAttr: "true or false", ir.StringAttr: "a string",
    ir.TypeAttr: "an element type", ir.DenseI64ArrayAttr: "integers as array<i64: ...>", ir.ArrayAttr: "a list as [...]",
    ir.DenseElementsAttr: "dense<...> of a tensor type", Sizes: "integers as array<i64: ...>, or sizes as [\"n\", 3, \"2*n + 1\"]",
}  # fmt: skip


@register_dialect
class Graph(Dialect, name="graph"):
    """Pure operations on ranked tensors. They define what a network computes, not how."""


class GraphOp(Operation, dialect=Graph):
    """The base class of all operations of the levels `graph` and `graph-opt`: those of the dialect `graph` and, with `dialect=`, those of any other.

    A subclass declares its fields (operands, attributes, results), and two static methods that share one signature, operands by
    position (None for an absent optional one, a list for a variadic one) and attributes by keyword as Python values:

    - `infer` gives the result type(s) from operand types, or raises InferenceError saying what was expected and what came. The
      verifier, the importer's builder and the passes all use it. If it takes elements of any type, the op only moves them.
    - `reference` gives the result array(s) from operand arrays: the op's meaning in numpy, used by folding, checks and tests.
      `result_types` may be asked for by keyword where the result depends on more than the operands (dynamic shapes).

    `flops(*operand_types, result, **attributes)` counts arithmetic. Unless overridden, it is none for an op that the traits `MovesData` or
    `JoinsData` describe, else one operation for each element of the result.

    What passes need to know of an op is here too: its traits (see `traits`), how it is fused, what its padding holds, the range of its
    results, and which operand holds indices.
    """

    fusion = Fusion.OPAQUE
    """How ops of the class may be fused; element-wise ops need not set it. Override `fusion_category` if it depends on the op."""

    if TYPE_CHECKING:  # annotations in the class body would become fields
        infer: ClassVar[Any]
        reference: ClassVar[Any]
        flops: ClassVar[Any]
        _traits: ClassVar[list[type]]
        _implied_traits: ClassVar[frozenset[type]]
        _dialect_obj: ClassVar[type[Dialect]]
    else:
        _implied_traits = frozenset()
        infer = None
        reference = None
        flops = staticmethod(one_per_element)

    def __init_subclass__(
        cls, *, dialect: type[Dialect] | None = None, fusion: Fusion | None = None, infer: Any = None, reference: Any = None, flops: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """`fusion`, `infer`, `reference` and `flops` may be given here instead of in the class's body."""
        name, place = kwargs.get("name"), dialect or Graph
        taken = next((op for op in place.operations if f"{place.DIALECT_NAMESPACE}.{name}" == op.OPERATION_NAME), None)
        if taken is not None:
            raise StepwellError(f"op '{cls.__qualname__}': there is already an op {taken.OPERATION_NAME}, {taken.__qualname__} of {taken.__module__}")
        if dialect is not None:
            if dialect not in registered_dialects():
                unknown = f"dialect '{dialect.DIALECT_NAMESPACE}' is not registered"
                raise StepwellError(f"op '{cls.__qualname__}': {unknown}; put @register_dialect above it")
            cls._dialect_obj = dialect  # replaces the inherited attribute, which the bindings refuse to replace
        if SumsProducts in kwargs.get("traits", ()) and cls.sum_of_products is GraphOp.sum_of_products:
            raise StepwellError(f"op '{cls.__qualname__}' states SumsProducts, so it must define sum_of_products")
        if "flops" not in vars(cls) and any(issubclass(trait, (MovesData, JoinsData)) for trait in kwargs.get("traits", ())):
            cls.flops = staticmethod(no_arithmetic)
        for attribute, value in (("fusion", fusion), ("infer", infer), ("reference", reference), ("flops", flops)):
            if value is not None:
                setattr(cls, attribute, staticmethod(value) if callable(value) and not isinstance(value, staticmethod) else value)
        super().__init_subclass__(**kwargs)
        cls._implied_traits = frozenset(trait for stated in cls._traits for trait in stated.__mro__)
        define_group_accessors(cls)
        extension(cls)

    @classmethod
    def mnemonic(cls) -> str:
        """The op's name in builders and patterns: without the dialect if that is `graph`."""
        return cls.OPERATION_NAME.removeprefix("graph.")

    @classmethod
    def has_trait(cls, trait_cls: type, context: ir.Context | None = None) -> bool:
        """Whether the class or a base class has the trait or one that implies it; for MLIR's traits, whether the op has it in a context."""
        if issubclass(trait_cls, Trait):
            return trait_cls in cls._implied_traits
        return bool(super().has_trait(trait_cls, context))

    def fusion_category(self) -> Fusion:
        """How this op may be fused with others."""
        return Fusion.INJECTIVE if self.has_trait(Elementwise) else type(self).fusion

    def padding_value(self) -> float | None:
        """The padding value that leaves the result of an op with `pads` unchanged; None for an op without `pads`."""
        return None

    def value_range(self, *operands: Any) -> Range | tuple[Range, ...]:
        """The range of each result's elements (a single range for an op with one result), from the operands' ranges by field.

        The fields are those of `operand_groups`. The range ignores integer overflow: a result that may exceed an integer type may have any value of
        that type.
        """
        known = union(_flat(operands)) if self.has_trait(JoinsData) else operands[0] if self.has_trait(MovesData) else ANY
        return known if len(self.operation.results) == 1 else (known,) * len(self.operation.results)

    def index_operand(self) -> IndexOperand | None:
        """The operand that holds indices into the first operand, which must be in range; None for an op without indices."""
        return None

    def sum_of_products(self) -> SumOfProducts | None:
        """How the two operands are combined in the result. None unless the class has the trait `SumsProducts`; such a class must override it."""
        return None

    def channel_groups(self) -> int:
        """The number of groups of channels of the first operand, each of which is read for separate results; 1 for an op without groups."""
        return 1

    def operand_channels(self) -> list[slice | None]:
        """For each operand the channels (dimension 1) of the result that come only from its channels, in order; None if this is unknown.

        Called only if the channels of the result are known.
        """
        operands, result = self.operation.operands, self.result_types()[0]
        if self.has_trait(KeepsChannels):
            keeps = [True, *(False for _ in operands[1:])]
        else:
            keeps = [self.has_trait(Elementwise) and TensorType.from_mlir(v.type).shape == result.shape for v in operands]
        return [slice(0, result.shape[1]) if one else None for one in keeps]

    def is_pointwise(self) -> bool:
        """Whether each position of the blocked result depends only on the same position of the first operand, in all its channels."""
        return False

    def copied_operands(self) -> Sequence[ir.Value]:
        """The operands that the op first copies to their positions in the result; their producers may write to those positions directly."""
        return list(self.operation.operands) if self.has_trait(JoinsData) else ()

    def batched_attributes(self, count: int | Size) -> dict[str, Any] | None:
        """The attributes with which a data-movement op processes `count` tensors at once, stacked along a new first dimension.

        None if there are none; passes then leave the op inside its loop.
        """
        return None

    def contiguous_run(self) -> Dim:
        """The number of consecutive elements of the result that are consecutive in the first operand, for an op that only moves data.

        Such an op is lowered to one structured op, so that consumers can read through it. 0 for other ops.
        """
        return 0

    def repeats_cheaply(self) -> bool:
        """Whether the op only widens compact stored data to floats, so that each reader recomputes it."""
        return False

    def operand_groups(self) -> list[Any]:
        """The operand values by field: a value, None for an absent optional one, a list for a variadic one."""
        return [getattr(self, name) for name, _ in operand_fields(type(self))]

    def operand_types(self) -> list[Any]:
        """The light types of the operands, arranged as in `operand_groups`."""
        return map_groups(lambda v: TensorType.from_mlir(v.type), self.operand_groups())

    def attribute_values(self) -> dict[str, Any]:
        """The op's declared attributes as Python values; attributes of classes that a dialect defines stay as they are."""
        return {field.name: field_value(self.attributes[field.name], field.constraint) for field in attribute_fields(type(self))}

    def result_types(self) -> tuple[TensorType, ...]:
        """The light types of all results."""
        return tuple(TensorType.from_mlir(r.type) for r in self.operation.results)

    def evaluate(
        self, operands: Sequence[Any], sizes: Mapping[str, int] = MappingProxyType({}), types: Sequence[TensorType] | None = None
    ) -> tuple[np.ndarray, ...]:
        """Run `reference` on operand arrays (by field, as in `operand_groups`) and cast to the result types; `sizes` maps symbols to numbers.

        `types`, if given, replaces the types of the results. Raises StepwellError if the op has no reference, or if the reference is not defined for
        these data.
        """
        function = type(self).reference
        if function is None:
            raise StepwellError(f"{self.OPERATION_NAME} has no reference meaning")
        given = self.result_types() if types is None else tuple(types)
        computed: Sequence[TensorType] = given
        if needs_emulation(self):
            operands, computed = map_groups(_computed, operands), [emulated_in(kind) for kind in given]
        extra = {"result_types": tuple(computed)} if takes_result_types(function) else {}

        def call() -> Any:
            attributes = {name: in_numbers(value, sizes) for name, value in self.attribute_values().items()}
            with np.errstate(all="ignore"):
                return function(*operands, **attributes, **extra)

        return tuple(narrow(r, to_numpy(t.dtype)) for r, t in zip(referred(self, call), given, strict=True))

    def verify_invariants(self) -> bool:
        """The verifier of every op with an `infer`: inferred and actual result types must agree."""
        return report(self, self.type_problem())

    def type_problem(self) -> str | None:
        """The problem with the op's operands, attributes or result types; None if there is none."""
        # The bindings call this before they check arity and the presence and kinds of attributes, so these are checked first.
        problem = self.arity_problem() or self.attribute_problem()
        if problem is not None:
            return problem
        try:
            self.check_tensors()
            if type(self).infer is None:
                return None
            expected = inferred_types(type(self), self.operand_types(), self.attribute_values())
        except StepwellError as error:
            return str(error.args[0])
        actual = self.result_types()
        if len(expected) != len(actual):
            return f"has {len(actual)} results, expected {len(expected)}"
        for name, want, got in zip((n for n, _ in result_fields(type(self))), expected, actual, strict=False):
            if not compatible(want, got):
                return f"result '{name}' is {got}, but its operands and attributes give {want}"
        return None

    def arity_problem(self) -> str | None:
        """The problem with the number of operands, if any."""
        fields = operand_fields(type(self))
        count, least = len(self.operation.operands), sum(kind == "single" for _, kind in fields)
        exact = least == len(fields)
        if count < least or (exact and count > least):
            return f"takes {'' if exact else 'at least '}{least} operand{'' if least == 1 else 's'} ({', '.join(n for n, _ in fields)}), got {count}"
        return None

    def attribute_problem(self) -> str | None:
        """The problem with the presence or the kinds of the attributes, if any."""
        for field in attribute_fields(type(self)):
            if field.name not in self.operation.attributes:
                return f"lacks the attribute '{field.name}'"
            attribute = self.operation.attributes[field.name]
            if not fits_kind(attribute, field.constraint):
                return f"attribute '{field.name}' must be {KIND_NAMES[field.constraint]}, got {attribute}"
        return None

    def check_tensors(self) -> None:
        """Raise InferenceError, naming the operand or result, if one is not a tensor of our element types."""
        for name, group in zip((n for n, _ in operand_fields(type(self))), self.operand_groups(), strict=True):
            for value in group if isinstance(group, list) else [] if group is None else [group]:
                checked_type(f"operand '{name}'", value)
        for result in self.operation.results:
            checked_type("a result", result)


class SingleOperand(GraphOp):
    """An op with one operand, `x`, and one result."""

    x: Operand
    result: Result


def _computed(array: np.ndarray) -> np.ndarray:
    return wide(array) if is_emulated(from_numpy(array.dtype)) else array


@cache
def takes_result_types(reference: Callable[..., Any]) -> bool:
    """Whether a reference takes the types of its results."""
    return "result_types" in inspect.signature(reference).parameters


def checked_type(what: str, value: ir.Value) -> TensorType:
    """The light type of a value. The InferenceError for another type names the value by `what`."""
    try:
        return TensorType.from_mlir(value.type)
    except InferenceError as error:
        raise type(error)(f"{what}: {error.args[0]}") from None


def field_value(attribute: ir.Attribute, kind: Any) -> Any:
    """The Python value of an attribute whose field was declared as `kind`."""
    if kind == Sizes:
        return sizes_value(attribute)
    return kind(attribute) if isinstance(kind, type) and issubclass(kind, Attribute) else to_python(attribute)


def compatible(a: TensorType, b: TensorType) -> bool:
    """Whether two types agree wherever both are known."""
    return a.dtype == b.dtype and a.rank == b.rank and all(not differ(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def in_numbers(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute's value with symbolic sizes replaced by numbers. Raises StepwellError for a symbol without a number."""
    if not isinstance(value, tuple) or not any(isinstance(entry, Size) for entry in value):
        return value
    try:
        return tuple(evaluated(entry, sizes) for entry in value)
    except KeyError as error:
        raise StepwellError(f"the size {error.args[0]} is not known") from None


def fits_kind(attribute: ir.Attribute, kind: Any) -> bool:
    """Whether an attribute is of its field's declared kind (the bindings check kinds that are not listed here)."""
    if kind is ir.DenseElementsAttr:
        return isinstance(attribute, kind) and isinstance(attribute.type, ir.RankedTensorType)
    return kind not in KIND_NAMES or isinstance(attribute, kind)


def _flat(groups: Iterable[Any]) -> list[Any]:
    """The entries of a list by field, without absent ones; ranges are pairs."""
    return [entry for group in groups if group is not None for entry in (group if isinstance(group, list) else [group])]


def map_groups(function: Callable[[Any], Any], groups: Sequence[Any]) -> list[Any]:
    """Apply `function` to each operand of a list by field, keeping None and nested lists."""
    return [None if g is None else [function(v) for v in g] if isinstance(g, list) else function(g) for g in groups]


def attribute_names(cls: type[GraphOp]) -> tuple[str, ...]:
    """The names of a class's attribute fields, in order."""
    return tuple(f.name for f in attribute_fields(cls))


def op_classes(*dialects: str) -> dict[str, type[GraphOp]]:
    """Every op of these dialects (by default `graph`) by mnemonic, including ops of plugins."""
    return {cls.mnemonic(): cls for cls in graph_ops() if cls.OPERATION_NAME.partition(".")[0] in (dialects or ("graph",))}


def graph_ops() -> list[type[GraphOp]]:
    """Every op of the levels `graph` and `graph-opt`, in any dialect."""
    return [cls for dialect in registered_dialects() for cls in dialect.operations if issubclass(cls, GraphOp)]


def ops_with(trait: type[Trait]) -> list[type[GraphOp]]:
    """The op classes with a trait, including those of plugins."""
    return [cls for cls in graph_ops() if cls.has_trait(trait)]


def op_class(mnemonic: str) -> type[GraphOp]:
    """The op class with this mnemonic. Raises StepwellError if there is none."""
    if mnemonic not in _BY_MNEMONIC:
        _BY_MNEMONIC.update({cls.mnemonic(): cls for cls in graph_ops()})  # a plugin may have added ops since the last call
    if mnemonic not in _BY_MNEMONIC:
        close = difflib.get_close_matches(mnemonic, _BY_MNEMONIC, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise StepwellError(f"there is no op {mnemonic if '.' in mnemonic else f'graph.{mnemonic}'}{hint}")
    return _BY_MNEMONIC[mnemonic]


_BY_MNEMONIC: dict[str, type[GraphOp]] = {}


def make_op(cls: type[GraphOp], operands: Sequence[Any], attributes: dict[str, Any], result_types: Sequence[TensorType], **where: Any) -> GraphOp:
    """Build an op from operand values by field, attributes as Python values and light result types; `where` is `loc=`, `ip=`."""
    declared = attribute_fields(cls)
    if len(attributes) != len(declared) or any(field.name not in attributes for field in declared):
        raise StepwellError(f"{cls.OPERATION_NAME} takes the attributes ({', '.join(attribute_names(cls))}), got ({', '.join(attributes)})")
    if len(operands) != len(operand_fields(cls)):
        raise StepwellError(f"{cls.OPERATION_NAME} takes {len(operand_fields(cls))} operands, got {len(operands)}")
    types: list[Any] = [t.to_mlir() for t in result_types]
    if [kind for _, kind in result_fields(cls)] == ["variadic"]:
        types = [types]
    encoded = {field.name: to_attribute(attributes[field.name], field.constraint) for field in declared}
    return create_operation(cls, operands, types, encoded, **where)


def field_type(cls: type[GraphOp], name: str) -> Any:
    """The attribute class with which a field was declared."""
    return next(f.constraint for f in attribute_fields(cls) if f.name == name)


def broadcast(*types: TensorType) -> tuple[Dim, ...]:
    """The numpy-style broadcast of several shapes. Raises InferenceError naming the shapes that do not fit.

    A size that is known only at run time is not assumed to be 1 if another size is not 1.
    """
    rank = max(t.rank for t in types)
    out: list[Dim] = []
    for i in range(rank):
        sizes = dict.fromkeys(t.shape[t.rank - rank + i] for t in types if t.rank - rank + i >= 0)
        wide = sorted((s for s in sizes if s is not None and s != 1), key=lambda size: not isinstance(size, int))
        if not all(holds(size, "==", wide[0]) for size in wide[1:]):
            raise InferenceError(f"shapes {' and '.join(str(t) for t in types)} do not broadcast")
        out.append(wide[0] if wide else None if None in sizes else 1)
    return tuple(out)
