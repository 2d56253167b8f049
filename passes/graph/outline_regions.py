"""The pass that outlines the regions of conditionals and loops as functions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import defining_op, func, ir, ops_below, replace_op
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.sizes import Size, maximum, symbol
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.flow import control as flow
from stepwell.dialects.flow.boxes import BOX, boxed, opened
from stepwell.dialects.graph import GraphBuilder, IfOp, LoopOp
from stepwell.dialects.graph.control import ControlInfo
from stepwell.dialects.graph.known import KnownValues
from stepwell.dialects.graph.regions import captured_by
from stepwell.dialects.graph.symbolic import SymbolicValues
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions, program_functions
from stepwell.passes.graph.bind_sizes import bind, first_along, symbols_of

_MOST = np.iinfo(np.int64).max  # the trip count if none is given


@register_pass("outline-regions", level="graph")
class OutlineRegions(Pass):
    """Outline each region of a conditional or a loop as a function, with the captured values as arguments.

    rewrite: graph.if(c) {then} {else}  ->  flow.if(c, captured…) {then = "main.then", otherwise = "main.else"}
    rewrite: graph.loop(n, c, x…) {body} -> flow.loop(n, c, x…, captured…) {body = "main.body", carried = …}

    Constants are not captured but repeated. A loop that collects parts gets memory for the largest possible trip count; if the condition may end it
    earlier, the first parts are taken once their number is known. Carried values of changing sizes, and branch results of different sizes, are passed
    in boxes (`flow.box`), and unboxed where they are used.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        taken = {f.sym_name.value for f in functions(op)}
        waiting = program_functions(op)
        while waiting:
            function = waiting.pop()
            for inner in [o.operation for o in function.regions[0].blocks[0].operations]:
                if inner.name in ControlInfo.on:
                    waiting += _Outliner(op, function, taken, state).outline(inner)
        for kept in list(ops_below(op, "graph.keep")):
            kept.erase()


class _Outliner:
    """Outlines the regions of ops in one function."""

    def __init__(self, module: ir.Operation, function: Any, taken: set[str], state: PassState) -> None:
        self.module, self.function, self.taken, self.state = module, function, taken, state

    def outline(self, op: ir.Operation) -> list[Any]:
        """The new functions of an op, which is replaced; none if it cannot be outlined."""
        view: Any = op.opview
        why_not = if_problem(view) if isinstance(view, IfOp) else loop_problem(view, self.state, ModuleInfo(self.module).symbols)
        if why_not is not None:
            self.state.decline("outline-regions", op, NoMatch(why_not))
            ControlInfo(op).reason = ControlInfo(op).reason or why_not
            return []
        with ir.InsertionPoint(op), op.location:
            b = GraphBuilder(self.state.weights)
            made, results = self._if(view, b) if isinstance(view, IfOp) else self._loop(view, b)
        self.state.count("outline-regions")
        replace_op(op, results)
        return made

    def _if(self, op: IfOp, b: GraphBuilder) -> tuple[list[Any], Sequence[ir.Value]]:
        types = list(op.result_types())
        changing = [i for i, kinds in enumerate(_if_kinds(op)) if len({kind.shape for kind in kinds}) > 1]
        for region in op.operation.regions:
            _box_operands(region.blocks[0], changing, b)
        captured = captured_by(op.operation)
        functions_ = [self._function(region, word, [], captured) for region, word in zip(op.operation.regions, ("then", "else"), strict=True)]
        names = [f.sym_name.value for f in functions_]
        made = b.create(
            flow.IfOp, [op.condition, captured], {"then": names[0], "otherwise": names[1], "destinations": 0},
            [BOX if i in changing else kind for i, kind in enumerate(types)],
        )
        return functions_, _open(b, list(made.operation.results), types, changing)

    def _loop(self, op: LoopOp, b: GraphBuilder) -> tuple[list[Any], Sequence[ir.Value]]:
        body = op.operation.regions[0].blocks[0]
        changing = [i for i, kinds in enumerate(_loop_kinds(op)) if len({kind.shape for kind in kinds}) > 1]
        carried = [boxed(b, v) if i in changing else v for i, v in enumerate(op.carried)]
        for i in changing:
            _open_argument(body, 2 + i, self.state.weights)
        _box_operands(body, [1 + i for i in changing], b)
        captured, types = captured_by(op.operation), list(op.result_types())
        after = [BOX if i in changing else kind for i, kind in enumerate(types[: len(carried)])]
        going_on = stays_true(body, op.condition, b)
        collected = types[len(carried) :]
        if collected:
            most = self._most_rounds(op, b, collected, whole=going_on)
            if not going_on:
                types[len(carried) :] = [kind.with_shape((most, *kind.shape[1:])) for kind in collected]
        function = self._function(op.operation.regions[0], "body", list(body.arguments), captured)
        attributes = {"body": function.sym_name.value, "carried": len(carried), "destinations": 0}
        operands = [op.trip_count, op.condition, [*carried, *captured]]
        after += [*types[len(carried) :], TensorType("i64", (1,))]
        results: list[ir.Value] = list(b.create(flow.LoopOp, operands, attributes, after).operation.results)
        parts = results[len(carried) : -1]
        if collected and not going_on:
            sizes = [kind.shape[0] for kind in collected]
            bind(b, b.concat([results[-1]] * len(sizes), axis=0), sizes)  # type: ignore[arg-type]  # none of them is None
            parts = [first_along(b, part, 0, size) for part, size in zip(parts, sizes, strict=True) if size is not None]
        return [function], [*_open(b, results[: len(carried)], types, changing), *parts]

    def _most_rounds(self, op: LoopOp, b: GraphBuilder, collected: Sequence[TensorType], *, whole: bool) -> int | Size:
        """The largest trip count: a number, or a symbol that is bound here; if all iterations run, the size of the results."""
        count = b.constant_value(op.trip_count)
        sizes = [kind.shape[0] for kind in collected]
        if count is not None:
            number = max(int(count), 0)
            if whole and any(size != number for size in sizes):
                bind(b, b.literal(np.full(len(sizes), number)), sizes)  # type: ignore[arg-type]  # none of them is None
            return number
        if (size := rounds_of(op, self.state.weights)) is not None:
            return size  # the program's sizes determine it
        limit = b.reshape(b.maximum(op.trip_count, b.literal(np.array(0))), shape=(1,))
        size = sizes[0]
        assert isinstance(size, Size)
        if whole:
            bind(b, b.concat([limit] * len(sizes), axis=0), sizes)  # type: ignore[arg-type]  # none of them is None
            return size
        most = symbol(f"most_{size}")
        bind(b, limit, [most])
        return most

    def _function(self, region: ir.Region, word: str, own: Sequence[ir.Value], captured: Sequence[ir.Value]) -> Any:
        """Move the block of a region to a function of its arguments and of the captured values."""
        name = self._free_name(f"{self.function.sym_name.value}.{word}")
        block = region.blocks[0]
        end = list(block.operations)[-1].operation
        inputs, results = [v.type for v in (*own, *captured)], [v.type for v in end.operands]
        with ir.InsertionPoint(self.module.regions[0].blocks[0]), self.function.location:
            function = func.FuncOp(name, ir.FunctionType.get(inputs, results), visibility="private")
            KernelInfo(function).is_region = True
            entry = function.add_entry_block([self.function.location] * len(inputs))
        arguments = list(entry.arguments)
        for old, new in zip(own, arguments, strict=False):
            old.replace_all_uses_with(new)
        with ir.InsertionPoint(entry), end.location:
            last = func.ReturnOp(list(end.operands)).operation
        end.erase()
        for inner in list(block.operations):
            inner.operation.move_before(last)
        replacements = dict(zip(captured, arguments[len(own) :], strict=True))
        for inner_op in ops_below(function.operation):
            for number, operand in enumerate(inner_op.operands):
                if operand in replacements:
                    inner_op.operands[number] = replacements[operand]
                elif is_outside(operand, entry):
                    source = defining_op(operand)
                    assert source is not None  # all others are captured
                    replacements[operand] = source.clone(ir.InsertionPoint.at_block_begin(entry)).results[ir.OpResult(operand).result_number]
                    inner_op.operands[number] = replacements[operand]
        return function

    def _free_name(self, name: str) -> str:
        free, number = name, 1
        while free in self.taken:
            number += 1
            free = f"{name}_{number}"
        self.taken.add(free)
        return free


def is_outside(value: ir.Value, entry: ir.Block) -> bool:
    """Whether a value is defined outside a function."""
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    while block != entry:
        owner = block.owner.operation
        if owner.name == "func.func":
            return True
        block = owner.block
    return False


def _if_kinds(op: IfOp) -> list[tuple[TensorType, ...]]:
    """For each result its type, and the types that the branches give it."""
    ends = [list(region.blocks[0].operations)[-1].operation for region in op.operation.regions]
    return list(zip(op.result_types(), *([type_of(v) for v in end.operands] for end in ends), strict=True))


def _loop_kinds(op: LoopOp) -> list[tuple[TensorType, ...]]:
    """For each carried value its type before, in and after an iteration, and after the last one."""
    body = op.operation.regions[0].blocks[0]
    end = list(body.operations)[-1].operation
    sides = (list(op.carried), list(body.arguments)[2:], list(end.operands)[1:], list(op.operation.results))
    return [tuple(map(type_of, values)) for values in zip(*sides, strict=False)]


def _box_operands(block: ir.Block, places: Sequence[int], b: GraphBuilder) -> None:
    """Let a block yield boxes of some of its values."""
    end = list(block.operations)[-1].operation
    with ir.InsertionPoint(end), end.location:
        for place in places:
            end.operands[place] = boxed(b, end.operands[place])


def _open_argument(block: ir.Block, place: int, weights: WeightTable) -> None:
    """Make an argument of a block a box, which the block opens first."""
    argument = block.arguments[place]
    kind, uses = type_of(argument), [(use.owner.operation, use.operand_number) for use in argument.uses]
    argument.set_type(BOX.to_mlir())
    with ir.InsertionPoint.at_block_begin(block), block.owner.location:
        value = opened(GraphBuilder(weights), argument, kind.dtype, kind.shape)
    for user, number in uses:
        user.operands[number] = value


def _open(b: GraphBuilder, results: Sequence[ir.Value], types: Sequence[TensorType], changing: Sequence[int]) -> list[ir.Value]:
    """The results of an op, with those in boxes unboxed; `types` are their types then."""
    return [opened(b, v, types[i].dtype, types[i].shape) if i in changing else v for i, v in enumerate(results)]


def if_problem(op: IfOp) -> str | None:
    """Why the branches of a conditional cannot be functions; None if they can."""
    return next((problem for kinds in _if_kinds(op) if (problem := _unnamed_problem("a conditional that gives", kinds))), None)


def _unnamed_problem(what: str, kinds: Sequence[TensorType]) -> str | None:
    """Why values of these types cannot be interchanged in boxes; None if they can, or need not be."""
    if len({kind.shape for kind in kinds}) > 1 and any(None in kind.shape for kind in kinds):
        return f"{what} values of sizes without a name ({', '.join(map(str, kinds))})"
    return None


def loop_problem(op: LoopOp, state: PassState, symbols: Sequence[str]) -> str | None:
    """Why the body of a loop cannot be a function; None if it can. `symbols` are known from the inputs."""
    carried = [type_of(v) for v in op.carried]
    body = op.operation.regions[0].blocks[0]
    end = list(body.operations)[-1].operation
    for kinds in _loop_kinds(op):
        problem = _unnamed_problem("a loop that carries", kinds)
        if problem is not None:
            return problem
    known = {*symbols} | {name for kind in (*carried, *map(type_of, captured_by(op.operation))) for size in kind.shape for name in symbols_of(size)}
    for part in list(end.operands)[len(carried) + 1 :]:
        late = {name for size in type_of(part).shape for name in symbols_of(size)} - known
        if late:
            return f"a loop that collects values of changing sizes ({type_of(part)})"
    count = GraphBuilder(state.weights).constant_value(op.trip_count)
    for kind in list(op.result_types())[len(carried) :]:
        if kind.shape[0] is None or (count is None and not isinstance(kind.shape[0], Size)):
            return f"a loop that collects values over a number of rounds without a name ({kind})"
    if len(op.result_types()) > len(carried) and count is not None and int(count) == _MOST:
        return "a loop that collects values over a number of rounds that nothing bounds"
    return None


def rounds_of(op: LoopOp, weights: WeightTable) -> int | Size | None:
    """The trip count of a loop without early exit, if it is known or a size of the program, as its results state; else None."""
    body = op.operation.regions[0].blocks[0]
    if not stays_true(body, op.condition, GraphBuilder(weights)):
        return None
    found = SymbolicValues(KnownValues(weights)).value(op.trip_count)
    if found is None:
        return None
    count = maximum(found.item(), 0)
    collected = list(op.result_types())[len(list(op.carried)) :]
    return count if all(kind.shape[0] == count for kind in collected) else None  # else the loop binds a symbol of its own


def stays_true(body: ir.Block, condition: ir.Value, b: GraphBuilder) -> bool:
    """Whether all iterations of a loop run: its condition is true, and stays true."""
    going_on = list(body.operations)[-1].operation.operands[0]
    if going_on == body.arguments[1]:
        known: Any = True
    else:
        known = b.constant_value(going_on)
    first = b.constant_value(condition)
    return bool(known is not None and np.all(known) and first is not None and np.all(first))
