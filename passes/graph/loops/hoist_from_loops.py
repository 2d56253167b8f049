"""The pass that moves computation in front of a loop, once or for all iterations at once, instead of repeating it in each."""

from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir, ops_below
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import TensorType, to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.traits import SumsProducts
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.graph.loops.remainder import finish, with_stacked
from stepwell.passes.graph.loops.rounds import Rounds, joined
from stepwell.passes.graph.loops.sums import products_of
from stepwell.passes.graph.matching import is_elementwise, is_used, states
from stepwell.passes.graph.outline_regions import rounds_of


@register_pass("hoist-from-loops", level="graph", optional=True)
class HoistFromLoops(Pass):
    """Compute values that do not depend on loop-carried values in front of the loop.

    rewrite: loop { … f(a) … }                      ->  v = f(a); loop { … v … }     if nothing of `a` is the body's
    rewrite: loop { … matmul(x[round], w) … }       ->  v = matmul(x, w); loop { … v[round] … }
    rewrite: loop { … matmul(concat(x[round], h), w) … } -> v = matmul(x, w's first rows); loop { … v[round] + matmul(h, w's other rows) … }
    rewrite: loop { yield i + 1 }                   ->  i + the number of rounds

    One product for all iterations reads its weights once. It is used only if all iterations run, their number is known or a size (as the importer
    finds it for counting loops), and the rows that they read certainly exist: no work is done for iterations that never run. Collected values that
    depend on nothing carried are computed for all iterations in any case, and a loop without remaining work is removed.
    """

    max_bytes: int = 1 << 28  # a value for all iterations stays in the loop if it is known to be larger, in bytes

    def run(self, op: ir.Operation, state: PassState) -> None:
        for loop in reversed(list(ops_below(op, "graph.loop"))):
            self._run_on(loop, state)

    def _run_on(self, loop: ir.Operation, state: PassState) -> None:
        view: Any = loop.opview
        rounds = Rounds(view, rounds_of(view, state.weights), GraphBuilder(state.weights))
        self._hoist_invariant(loop, rounds, state)
        if rounds.count is None:
            state.decline(self.name, loop, NoMatch("only the run tells how many rounds there are, so nothing is computed for all of them at once"))
            return
        self._read_rows(rounds)
        self._split_products(loop, rounds)
        self._hoist_rows(loop, rounds, state)
        finish(rounds, {})

    def _hoist_invariant(self, loop: ir.Operation, rounds: Rounds, state: PassState) -> None:
        """Compute values once that are the same in each iteration."""
        for op in operations(rounds):
            for result in op.results:
                if not is_used(result) or not _computes(op) or not rounds.is_invariant(result):
                    continue
                if all(_computes(use.owner.operation) and rounds.is_invariant(use.owner.operation.results[0]) for use in result.uses):
                    continue  # its consumer moves, too
                with ir.InsertionPoint(loop), loop.location:
                    value = rounds.lifted(result)
                state.did(self.name, op, "it is the same in each round of its loop, and is computed in front of it")
                state.count(self.name)
                result.replace_all_uses_with(value)

    def _read_rows(self, rounds: Rounds) -> None:
        """Use the iteration number instead of counters for reading rows that certainly exist: no check remains, and perhaps no counter."""
        for op in operations(rounds):
            read = rounds.row_read(op.opview) if op.name == "graph.gather" and is_used(op.results[0]) else None
            if read is None:
                continue
            view: Any = op.opview
            axis = view.attribute_values()["axis"]
            start, step = read
            if start == (0 if step == 1 else type_of(view.x).shape[axis] - 1):
                with ir.InsertionPoint(op), op.location:
                    row = rounds.b.at_round(view.x, rounds.body.arguments[0], axis=axis, backwards=step == -1)
                    if row.type != op.results[0].type:
                        row = rounds.b.reshape(row, shape=type_of(op.results[0]).shape)
                op.results[0].replace_all_uses_with(row)

    def _split_products(self, loop: ir.Operation, rounds: Rounds) -> None:
        """Split products with concatenations of rows and carried values into sums of two products."""
        b = rounds.b
        for op in operations(rounds):
            if op.name != "graph.matmul" or rounds.can_stack(op.results[0]) or not rounds.is_invariant(op.operands[1]):
                continue
            parts = products_of(op)
            early = [one for one in parts if rounds.can_stack(one.lhs)]
            late = [one for one in parts if one not in early]
            if not early or not late:
                continue
            with ir.InsertionPoint(loop), loop.location:
                weights = {one: one.weights(rounds) for one in parts}
            with ir.InsertionPoint(op), op.location:
                last = type_of(op.operands[0]).rank - 1
                sides = ((joined(b, [one.lhs for one in side], last), joined(b, [weights[one] for one in side], 0)) for side in (early, late))
                total = b.add(*(b.matmul(lhs, rhs) for lhs, rhs in sides))
            op.results[0].replace_all_uses_with(total)

    def _hoist_rows(self, loop: ir.Operation, rounds: Rounds, state: PassState) -> None:
        """Compute products of rows for all iterations at once."""
        count = rounds.count
        assert count is not None
        for op in operations(rounds):
            for result in op.results:
                if not is_used(result) or not rounds.can_stack(result) or not self._has_product(result, rounds):
                    continue
                if all(use.owner.operation.results and rounds.can_stack(use.owner.operation.results[0]) for use in result.uses):
                    continue  # the last one that can be computed early is
                kind = type_of(result)
                held = bytes_of(kind.with_shape((count, *kind.shape)))
                if isinstance(held, int) and held > self.max_bytes:
                    why = f"for all {count} rounds of its loop it would take {held} bytes, more than {self.max_bytes}"
                    state.decline(self.name, op, NoMatch(why))
                    continue
                with ir.InsertionPoint(loop), loop.location:
                    rounds.stacked(result)
                    state.did(self.name, op, f"computed for all {count} rounds of its loop at once")
                    state.count(self.name)
                    with_stacked(rounds, result)

    @staticmethod
    def _has_product(value: ir.Value, rounds: Rounds) -> bool:
        """Whether the body computes a value by a matrix product: other work is not worth the memory."""
        waiting, seen = [value], set[ir.Value]()
        while waiting:
            current = waiting.pop()
            op = defining_op(current)
            if current in seen or op is None or rounds.is_outside(current) or op.name in ("graph.gather", "graph.at_round"):
                continue
            seen.add(current)
            if states(op, SumsProducts):
                return True
            waiting += op.operands
        return False


def operations(rounds: Rounds) -> list[ir.Operation]:
    """The ops of a loop's body without the last."""
    return [o.operation for o in rounds.body.operations][:-1]


def bytes_of(kind: TensorType) -> "int | Size | None":
    """The number of bytes of a tensor."""
    return None if kind.size is None else kind.size * to_numpy(kind.dtype).itemsize


def _computes(op: ir.Operation) -> bool:
    """Whether an op is arithmetic: moving data is often free at its use."""
    return states(op, SumsProducts) or is_elementwise(op.opview)
