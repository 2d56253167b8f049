"""The pass that converts images to the channel-blocked layout, and carries it from convolution to convolution."""

from typing import Any

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import program_functions, replace_results
from stepwell.passes.graph.integer_products import sum_of_products
from stepwell.passes.packed import layout_rules  # noqa: F401  (registers them)
from stepwell.passes.packed.channel_blocks import BlockedValue, Layout, rule_of
from stepwell.passes.packed.channel_layouts import FILLING
from stepwell.passes.packed.channel_readers import readers

PLAIN = "plain"
"""The name of the layout (N, C, spatial…) in plans."""


@register_pass("convert-layout", level="graph", optional=True, switches={"unmasked-lanes": "mask=true"}, relaxed=("unmasked-lanes",))
class ConvertLayout(Pass):
    """Keep images channel-blocked, (N, C / b, spatial…, b), from one convolution to the next.

    rewrite: conv(x, w)               -> unpack(packed.conv(pack(x), w packed now))
    rewrite: conv(x, w) by channel    -> unpack(packed.depthwise_conv(x', w packed now))      where x = unpack(x')
    rewrite: f(unpack(x'), …)         -> unpack(f(x', …))      for element-wise ops, poolings, pads, reductions, concatenations, lrn
    rewrite: shuffle(unpack(x'))      -> unpack(x')            for a permutation of channels

    pack and unpack are a reshape and a transpose; where blocked values meet, neither is needed. Only this pass knows which channel lies in
    which lane: it packs weights to match, so that a permutation of channels moves no data. Lanes without a channel have zero
    weights, so their content does not matter as long as it is finite. It is finite if the data are. But 0 times an infinity is NaN; a clip turns the
    infinity into a finite number and keeps the NaN, which then reaches every reader of the block. `mask` keeps these lanes at zero.

    rewrite: packed.conv(x, w)        -> packed.masked(packed.conv(x, w), 1 or 0 for each lane)      with `mask`, if some lanes have no channel

    The filters of a convolution whose result goes to a grouped convolution are ordered such that each group finds its
    channels in neighbouring lanes. If one layout cannot serve two ops, `packed.relayout` moves channels between lanes.
    """

    block: int = 0  # channels in a block; 0 for the lanes of the target's vectors
    mask: bool = False  # keep lanes without a channel at zero, whatever the data

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in program_functions(op):
            self._run_on(function, state)

    def _run_on(self, main: Any, state: PassState) -> None:
        operations = [o.operation for o in main.regions[0].blocks[0].operations]
        found: dict[ir.Value, BlockedValue] = {}
        factors: dict[ir.Value, int] = {}  # vectors in a block, for blocked values
        made: set[ir.Value] = set()
        for operation, read_by in zip(operations, readers(operations), strict=True):
            rule = rule_of(operation)
            if rule is None or len(operation.results) != 1:
                continue
            [result] = operation.opview.result_types()
            if None in result.shape or not is_static(result.shape[1:2]):
                state.decline(self.name, operation, NoMatch("how many channels its result has, or another size, is not known"))
                continue
            factor = max((factors[operand] for operand in operation.operands if operand in factors), default=0)
            block = self.block
            if not block:
                lanes = state.machine.lanes(8 * to_numpy(result.dtype).itemsize)
                if not factor and sum_of_products(operation.opview) is not None:
                    wanted = _layout(operation, result, lanes, state)
                    if wanted == PLAIN:
                        state.decline(self.name, operation, NoMatch("it is to stay in the plain layout"))
                        continue
                    factor = int(wanted) // lanes
                block = lanes * (factor or 1)
            layout = Layout(state, block, self.mask, found, read_by)
            with ir.InsertionPoint(operation), operation.location:
                blocked = rule(operation.opview, layout)
                if isinstance(blocked, NoMatch):
                    state.decline(self.name, operation, blocked)
                    continue
                if not isinstance(blocked, BlockedValue):
                    raise PassError(f"the layout rule of '{operation.name}' must give a BlockedValue or NoMatch, got {type(blocked).__name__}")
                state.did(self.name, operation, _outcome(blocked, moves_nothing=blocked.value in made))
                if blocked.value in made:  # nothing is computed: readers of the plain value keep reading the old op
                    found[operation.results[0]] = blocked
                    factors[operation.results[0]] = factor or 1
                    continue
                made.add(blocked.value)
                [plain] = replace_results(operation, [layout.unpack(blocked)], layout)
            found[plain], factors[plain] = blocked, factor or 1
            operation.erase()
            state.count(self.name)


def _layout(op: ir.Operation, result: TensorType, lanes: int, state: PassState) -> str:
    """The channels in a block for an op at which a blocked part of the network begins, or `PLAIN`.

    The predictions cover the differences: lanes without a channel, or columns in the plain layout, are computed too; and the plain layout needs
    conversions around ops on blocks.
    """

    def candidates() -> list[Candidate]:
        [channels] = static_sizes(result.shape[1:2])
        moved = float(result.elements * to_numpy(result.dtype).itemsize) if result.is_static else 0.0
        filled = {width: -(-channels // width) * width / max(channels, 1) for width in (lanes, 2 * lanes)}
        blocked = [Candidate(str(width), state.machine.seconds(moved=moved * (part - 1)), {"channels": channels}) for width, part in filled.items()]
        return [*blocked, Candidate(PLAIN, state.machine.seconds(moved=2 * moved))]

    return state.choose("layout", op, candidates, str(lanes))


def _outcome(blocked: BlockedValue, *, moves_nothing: bool) -> str:
    """The outcome for an op, for `--explain`."""
    blocks, width = blocked.lanes.shape
    filling = int((blocked.lanes == FILLING).sum())
    what = "moves no data: its channels are found in other lanes" if moves_nothing else f"computed on {blocks} blocks of {width} channels"
    return what + (f", {filling} of these lanes filling" if filling else "")
