"""The fields of op classes: operands, attributes and results by name, and the construction of ops from them."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from stepwell.dialects.core.bindings import TYPE_RUNS, declared_fields, ir


@cache
def _fields_of(cls: Any) -> tuple[tuple[tuple[str, str], ...], tuple[Any, ...], tuple[tuple[str, str], ...]]:
    operands, attributes, results, _ = declared_fields(cls)
    return tuple((f.name, f.variadicity.name) for f in operands), tuple(attributes), tuple((f.name, f.variadicity.name) for f in results)


def operand_fields(cls: Any) -> tuple[tuple[str, str], ...]:
    """The operand fields of an op class as (name, "single" | "optional" | "variadic"), in order."""
    return _fields_of(cls)[0]


def attribute_fields(cls: Any) -> tuple[Any, ...]:
    """The attribute fields of an op class (each with `name` and `constraint`, its attribute class), in order."""
    return _fields_of(cls)[1]


def result_fields(cls: Any) -> tuple[tuple[str, str], ...]:
    """The result fields of an op class, like `operand_fields`."""
    return _fields_of(cls)[2]


def _sides(cls: Any) -> tuple[tuple[tuple[tuple[str, str], ...], str, str], ...]:
    """For operands and for results: their fields, the property of an op that lists them, and the name of the attribute with segment sizes."""
    return (operand_fields(cls), "operands", "operandSegmentSizes"), (result_fields(cls), "results", "resultSegmentSizes")


def _group(op: ir.Operation, fields: Sequence[tuple[str, str]], index: int, values: list[Any], sizes_name: str) -> Any:
    """The operands or results of a field: a value, a list for a variadic field, None for an absent optional one."""
    multiple = [i for i, (_, kind) in enumerate(fields) if kind != "single"]
    if len(multiple) > 1:
        sizes = list(ir.DenseI32ArrayAttr(op.attributes[sizes_name]))
    else:  # the only group of unknown size takes the rest
        sizes = [1] * len(fields)
        for i in multiple:
            sizes[i] = len(values) - (len(fields) - 1)
    start = sum(sizes[:index])
    group = values[start : start + sizes[index]]
    if fields[index][1] == "variadic":
        return group
    return group[0] if group else None


def create_operation(cls: Any, operands: Sequence[Any], results: Sequence[Any], attributes: dict[str, ir.Attribute], **where: Any) -> Any:
    """Build an op of `cls` from operands and result types by field (None if absent, a list if variadic); returns its view.

    Segment sizes are written only if two or more fields vary in length: otherwise the number of operands determines them, and
    hand-written IR needs none.
    """
    attributes = dict(attributes)
    flat = []
    for (fields, _, sizes_name), groups in zip(_sides(cls), (operands, results), strict=True):
        lists = [[] if g is None else list(g) if isinstance(g, (list, tuple)) else [g] for g in groups]
        if sum(kind != "single" for _, kind in fields) > 1:
            attributes[sizes_name] = ir.DenseI32ArrayAttr.get([len(g) for g in lists])
        flat.append([v for g in lists for v in g])
    regions = len(declared_fields(cls)[3])
    return ir.Operation.create(cls.OPERATION_NAME, operands=flat[0], results=flat[1], attributes=attributes, regions=regions, **where).opview


def define_group_accessors(cls: Any) -> None:
    """Replace the operand and result accessors of an op class by ones that need no segment sizes if only one field varies."""
    for fields, values, sizes_name in _sides(cls):
        if any(kind != "single" for _, kind in fields):
            for index, (name, _) in enumerate(fields):
                setattr(cls, name, _group_accessor(fields, index, values, sizes_name))


def _group_accessor(fields: Sequence[tuple[str, str]], index: int, values: str, sizes_name: str) -> property:
    return property(lambda self: _group(self.operation, fields, index, list(getattr(self.operation, values)), sizes_name))


class _TypeRuns:
    """The lengths of the type runs, which an op has only while IRDL's verifier checks it.

    Used for ops whose last field of operands or results is variadic and the only one of unknown length.
    """

    @staticmethod
    def verify_invariants(view: ir.OpView) -> bool:
        op = view.operation
        for fields, values, sizes_name in _variadic_groups(view):
            runs: list[int] = []
            singles = len(fields) - 1
            for i, value in enumerate(values):
                if i <= singles or value.type != values[i - 1].type:
                    runs.append(0)
                runs[-1] += 1
            if len(runs) > singles + TYPE_RUNS:
                op.location.emit_error(f"'{op.name}' has values of more than {TYPE_RUNS} types in a row ({sizes_name})")
                return False
            op.attributes[sizes_name] = ir.DenseI32ArrayAttr.get(runs + [0] * (singles + TYPE_RUNS - len(runs)), op.context)
        return True

    @staticmethod
    def verify_region_invariants(view: ir.OpView) -> bool:
        for _, _, sizes_name in _variadic_groups(view):
            del view.operation.attributes[sizes_name]
        return True


def _variadic_groups(view: ir.OpView) -> list[tuple[Any, list[Any], str]]:
    sides = (side for side in _sides(type(view)) if any(kind == "variadic" for _, kind in side[0]))
    return [(fields, list(getattr(view.operation, values)), sizes_name) for fields, values, sizes_name in sides]


def attach_type_runs(dialect: Any) -> None:
    """Allow ops of a newly loaded dialect to have operands, or results, of several types in one variadic field."""
    for cls in dialect.operations:
        if any(kind == "variadic" for fields, *_ in _sides(cls) for _, kind in fields):
            ir.DynamicOpTrait.attach(cls.OPERATION_NAME, _TypeRuns)
