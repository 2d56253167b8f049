"""The pass that splits a long @main into functions."""

from collections.abc import Sequence

from stepwell.dialects.core.llvm_ops import llvm_functions
from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.registry import Pass, PassState, register_pass

# Ops that each part may repeat: address computations, and loads of the arguments, which do not change while @main runs.
_REPEATED = frozenset({"llvm.getelementptr", "llvm.load", "llvm.mlir.constant", "llvm.mlir.addressof"})


@register_pass("split-main", level="llvm")
class SplitMain(Pass):
    """Split a `@main` of more than `calls` calls into functions that it calls one after the other.

    rewrite: llvm.func @main(%arguments) { A; B; C }  ->  llvm.func @main(%arguments) { call @main.0(%arguments); call @main.1(%arguments); C }

    LLVM takes quadratic time for one function. Each part reads the arguments and computes the addresses that it needs; a part ends only where no
    other value is live. What computes the status, C, stays in `@main`. The pass runs after `pack-arguments`: a `@main` with
    arguments other than one pointer is left unchanged, and so is one with several blocks.
    """

    calls: int = 1000

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in llvm_functions(op):
            if ir.StringAttr(function.attributes["sym_name"]).value == "main" and len(function.regions[0].blocks) == 1:
                block = function.regions[0].blocks[0]
                if [str(argument.type) for argument in block.arguments] == ["!llvm.ptr"]:
                    ops = [o.operation for o in block.operations]
                    end = _end(ops)
                    parts = _parts(ops[:end], max(self.calls, 1))
                    for number, part in enumerate(parts if len(parts) > 1 else []):
                        _outline(function, part, f"main.{number}")
                    if len(parts) > 1:
                        _adopt_all(ops[end:], block.arguments[0])


def _end(ops: Sequence[ir.Operation]) -> int:
    """Where the ops end that can be moved: a value that `@main` returns, and what may not be repeated before that, is computed behind."""
    needed, end = set(ops[-1].operands), len(ops) - 1
    for place in reversed(range(end)):
        if not needed.isdisjoint(ops[place].results):
            needed |= set(ops[place].operands)
            end = place if ops[place].name not in _REPEATED else end
    return end


def _parts(ops: Sequence[ir.Operation], calls: int) -> list[list[ir.Operation]]:
    """The ops in order, in runs of at least `calls` calls that share no values except ones that can be recomputed."""
    position = {current: index for index, current in enumerate(ops)}
    parts: list[list[ir.Operation]] = [[]]
    only_here: set[ir.Value] = set()
    called, needed_until = 0, -1
    for index, current in enumerate(ops):
        if called >= calls and needed_until < index:
            parts.append([])
            called = 0
        parts[-1].append(current)
        called += current.name == "llvm.call"
        if current.name not in _REPEATED or any(operand in only_here for operand in current.operands):
            only_here |= set(current.results)
            users = (use.owner.operation for result in current.results for use in result.uses)
            needed_until = max([needed_until, *(position.get(user, len(ops)) for user in users)])
    return parts


def _outline(main: ir.Operation, part: Sequence[ir.Operation], name: str) -> None:
    """Move `part` to a private function, and call it instead."""
    packed = main.regions[0].blocks[0].arguments[0]
    with ir.InsertionPoint(main), main.location:
        kept = {key: main.attributes[key] for key in ("CConv", "passthrough") if key in main.attributes}
        kept["function_type"] = ir.TypeAttr.get(ir.Type.parse("!llvm.func<void (ptr)>"))
        own = {"sym_name": ir.StringAttr.get(name), "linkage": ir.Attribute.parse("#llvm.linkage<internal>"), "no_inline": ir.UnitAttr.get()}
        function = ir.Operation.create("llvm.func", attributes={**kept, **own}, regions=1)
        block = function.regions[0].blocks.append(packed.type, arg_locs=[main.location])
        with ir.InsertionPoint(block):
            end = ir.Operation.create("llvm.return")
    with ir.InsertionPoint(part[0]), part[0].location:
        segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0]), "op_bundle_sizes": ir.DenseI32ArrayAttr.get([])}
        ir.Operation.create("llvm.call", attributes={"callee": ir.FlatSymbolRefAttr.get(name), **segments}, operands=[packed])
    for current in part:
        current.move_before(end)
    _adopt_all(part, block.arguments[0])


def _adopt_all(ops: Sequence[ir.Operation], argument: ir.Value) -> None:
    """Give ops in a row operands from the function that they are in now, whose argument is given."""
    here: dict[ir.Value, ir.Value] = {}
    for current in ops:
        _adopt(current, here, argument)
        here |= {result: result for result in current.results}


def _adopt(moved: ir.Operation, here: dict[ir.Value, ir.Value], argument: ir.Value) -> None:
    """Give an op that moved to a function operands from that function: `here` maps old values to new ones; other operands are cloned."""
    for index, operand in enumerate(moved.operands):
        if operand not in here:
            if isinstance(operand.owner, ir.Block):
                here[operand] = argument
            else:
                with ir.InsertionPoint(moved):
                    copy = operand.owner.clone().operation
                _adopt(copy, here, argument)
                here |= dict(zip(operand.owner.results, copy.results, strict=True))
        moved.operands[index] = here[operand]
