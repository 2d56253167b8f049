"""The pass that lets a KV cache grow in place: a call writes new elements behind the existing ones, in a buffer with spare capacity."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.sizes import Size, symbol
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph import ConcatOp, GraphBuilder, ScatterElementsOp, SliceOp
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, find_function, retyped
from stepwell.passes.graph.matching import erase_unused, has_one_use, producer

CAPACITY = "_capacity"  # suffix of the capacity symbol
LENGTHS = "lengths"  # the name of the input with the current lengths


@register_pass("append-in-place", level="graph")
class AppendInPlace(Pass):
    """Write new elements directly into a state tensor's buffer, if an output is an input with something appended.

    rewrite: return concat(%past, x)      ->  return overwrite(%past, x) from `n` on     with n the size of %past along the axis
             other uses of the result     ->  first n + m elements of it                 with m that of x
             other uses of %past          ->  first n elements of it

    This applies to the pairs of `stepwell.bound`, which declare that the next call takes the output as the input. Both are then a buffer with the
    capacity `n_capacity`, and `n` is an element of an additional input. Other pairs are removed from the list: the next call gets the array itself.

    Some attention writes to positions given by data, which may be before the end if sequences have different lengths:

    rewrite: return scatter(concat(%past, x))  ->  return overwrite(%new, scatter(first(%new))), %new = overwrite(%past, x) from `n` on

    This also applies if only the first elements of the concatenation are taken; then nothing else may use %past.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        info = ModuleInfo(op)
        if not info.bound:
            return
        main = find_function(op, "main")
        block = main.regions[0].blocks[0]
        end = list(block.operations)[-1].operation
        names = info.symbols
        capacities: dict[Size, Size] = {}
        kept: list[tuple[int, int]] = []
        for taker, giver in info.bound:
            try:
                found = _growing(block.arguments[taker], end.operands[giver])
            except NoMatch as why:
                state.decline(self.name, end, NoMatch(f"the memory of output {giver} is not that of input {taker}: {why.reason}"))
                continue
            length = type_of(block.arguments[taker]).shape[found.axis]
            assert isinstance(length, Size)
            if length not in capacities:
                capacities[length] = symbol(_free(f"{length}{CAPACITY}", names))
                names = [*names, str(capacities[length])]
            state.did(self.name, found.concat.operation, "what is new is written behind what is there")
            _write_behind(found, block.arguments[taker], (end, giver), (length, capacities[length]), GraphBuilder(state.weights))
            state.count(self.name)
            kept.append((taker, giver))
        info.bound = kept
        if capacities:
            _add_lengths(main, info, list(capacities))
            retyped(main)
            arguments, returned = list(block.arguments), list(end.operands)
            names_of = [[name for name, _ in side] for side in (info.inputs, info.outputs)]
            info.inputs = [(name, type_of(value)) for name, value in zip([*names_of[0], _lengths_name(names_of[0])], arguments, strict=True)]
            info.outputs = [(name, type_of(value)) for name, value in zip(names_of[1], returned, strict=True)]


@dataclass(frozen=True)
class _Growth:
    """How an output grows from an input: by a concatenation, to some elements of which a scatter may write."""

    concat: ConcatOp
    scatter: ScatterElementsOp | None

    @property
    def axis(self) -> int:
        """The axis along which it grows."""
        return self.concat.attribute_values()["axis"]


def _growing(argument: ir.Value, result: ir.Value) -> _Growth:
    """The ops that append something to an argument to give a result. Raises NoMatch if there are none."""
    scatter = producer(result, "scatter_elements")
    whole = result if scatter is None else _beginning_of(scatter.x)
    concat = producer(whole, "concat")
    if not isinstance(concat, ConcatOp):
        raise NoMatch("it is not the result of a concatenation")
    first, *rest = concat.operation.operands
    if first != argument or argument in rest:
        raise NoMatch("it does not begin with that input")
    if len(rest) == 0:
        raise NoMatch("there is nothing behind that input")
    axis = concat.attribute_values()["axis"]
    length = type_of(argument).shape[axis]
    if not isinstance(length, Size) or not length.is_symbol:
        raise NoMatch(f"the size of the input along the axis, {length}, is not one that the call says")
    if scatter is not None:
        if not all(has_one_use(value) for value in (argument, whole, scatter.x)):
            raise NoMatch("the input, or what is put together, is read by others than the scatter, which overwrites it")
        if scatter.attribute_values()["reduction"] != "none":
            raise NoMatch("the scatter does not overwrite, but adds to what is there")
        if any(i != axis and a != b for i, (a, b) in enumerate(zip(type_of(scatter.x).shape, type_of(whole).shape, strict=True))):
            raise NoMatch("of what is put together, a part is taken along another axis")
    return _Growth(concat, scatter)


def _beginning_of(value: ir.Value) -> ir.Value:
    """The value that a slice takes the first elements of; any other value itself."""
    found = producer(value, "slice")
    if not isinstance(found, SliceOp):
        return value
    of, x = found.attribute_values(), found.operation.operands[0]
    return x if all(start == 0 for start in of["starts"]) and all(step == 1 for step in of["steps"]) else value


def _write_behind(found: _Growth, argument: ir.Value, place: tuple[ir.Operation, int], sizes: tuple[Size, Size], b: GraphBuilder) -> None:
    """Do the rewrite for one input; `place` is the operand that returns it, `sizes` are the length and the capacity."""
    (end, giver), (length, capacity), axis = place, sizes, found.axis
    operation, scatter = found.concat.operation, found.scatter
    old = type_of(argument)
    readers = [(use.owner.operation, use.operand_number) for use in argument.uses if use.owner.operation != operation]
    argument.set_type(old.with_shape([capacity if i == axis else size for i, size in enumerate(old.shape)]).to_mlir())

    def first(value: ir.Value, kind: TensorType) -> ir.Value:
        return b.first(value, sizes=tuple(kind.shape[axis] if i == axis else -1 for i in range(kind.rank)))

    if readers:
        with ir.InsertionPoint.at_block_begin(operation.block), operation.location:
            before = first(argument, old)
        for reader, number in readers:
            reader.operands[number] = before
    with ir.InsertionPoint(operation), operation.location:
        rest = list(operation.operands)[1:]
        part = rest[0] if len(rest) == 1 else b.concat(rest, axis=axis)
        written = b.overwrite(argument, part, starts=tuple(length if i == axis else 0 for i in range(old.rank)))
    given, after, replaced = found.concat.result, ir.InsertionPoint(operation), found.concat.result
    if scatter is not None:
        given, after, replaced = scatter.result, ir.InsertionPoint.after(scatter.operation), scatter.x
        with ir.InsertionPoint(scatter.operation), scatter.operation.location:
            scatter.operation.operands[0] = first(written, type_of(scatter.x))
        with after, scatter.operation.location:
            written = b.overwrite(written, given, starts=(0,) * old.rank)
    with after, operation.location:
        visible = first(written, type_of(given))
    made, unread = defining_op(written), [defining_op(visible), defining_op(replaced)]  # the last is the concatenation, or a slice of it
    given.replace_all_uses_except(visible, [] if made is None else [made])
    end.operands[giver] = written
    erase_unused([op for op in unread if op is not None])


def _add_lengths(main: Any, info: ModuleInfo, lengths: list[Size]) -> None:
    """Add the input whose elements are the current lengths of the state tensors."""
    block = main.regions[0].blocks[0]
    names = [name for name, _ in info.inputs]
    argument = block.add_argument(TensorType("i64", (len(lengths),)).to_mlir(), main.location)
    attributes = ValueInfo.arguments(main)
    retyped(main)
    ValueInfo.set_arguments(main, [*attributes, ValueInfo(name=_lengths_name(names))])
    elements = [*info.elements, *[()] * (len(names) - len(info.elements))]
    info.elements = [*elements, tuple(lengths)]
    assert argument.arg_number == len(names)


def _lengths_name(names: list[str]) -> str:
    return _free(LENGTHS, names)


def _free(name: str, taken: list[str]) -> str:
    """`name`, with as many underscores appended as needed to make it unique."""
    while name in taken:
        name += "_"
    return name
