"""The pass that converts images to the channel-blocked layout, and carries it from convolution to convolution."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.dialects.core.types import TensorType, is_float, to_numpy
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import program_functions, replace_results
from stepwell.passes.graph.integer_products import sum_of_products
from stepwell.passes.packed import layout_rules  # noqa: F401  (registers them)
from stepwell.passes.packed.channel_blocks import BlockedValue, Layout, Rule, rule_of
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
        done = _Converted()
        for operation, read_by in zip(operations, readers(operations), strict=True):
            rule = rule_of(operation)
            if rule is not None and len(operation.results) == 1:
                with state.attempt(self.name, operation):
                    self._convert(operation, rule, read_by, done, state)

    def _convert(self, op: ir.Operation, rule: Rule, read_by: np.ndarray | None, done: "_Converted", state: PassState) -> None:
        """Replace an op by the result of its rule, converted back for readers of the plain value. Raises NoMatch if the rule does not apply."""
        [result] = op.opview.result_types()
        if None in result.shape or not is_static(result.shape[1:2]):
            raise NoMatch("how many channels its result has, or another size, is not known")
        factor, block = max((done.factors[operand] for operand in op.operands if operand in done.factors), default=0), self.block
        if not block:
            lanes = state.machine.lanes(8 * to_numpy(result.dtype).itemsize)
            if not factor and sum_of_products(op.opview) is not None:
                factor = _chosen_block(op, result, lanes, state) // lanes
            block = lanes * (factor or 1)
        layout = Layout(state, block, self.mask, done.blocked, read_by)
        with ir.InsertionPoint(op), op.location:
            blocked = rule(op.opview, layout)
            if isinstance(blocked, NoMatch):
                raise NoMatch(blocked.reason)
            if not isinstance(blocked, BlockedValue):
                raise PassError(f"the layout rule of '{op.name}' must give a BlockedValue or NoMatch, got {type(blocked).__name__}")
            moves_nothing = blocked.value in done.computed  # readers of the plain value keep reading the old op
            state.did(self.name, op, _outcome(blocked, moves_nothing=moves_nothing))
            plain = op.results[0] if moves_nothing else replace_results(op, [layout.unpack(blocked)], layout)[0]
        done.blocked[plain], done.factors[plain] = blocked, factor or 1
        if not moves_nothing:
            done.computed.add(blocked.value)
            op.erase()
            state.count(self.name)


@dataclass
class _Converted:
    """The values of a function that are blocked."""

    blocked: dict[ir.Value, BlockedValue] = field(default_factory=dict)
    """Maps plain values to blocked ones."""
    factors: dict[ir.Value, int] = field(default_factory=dict)
    """Maps plain values to the vectors in a block."""
    computed: set[ir.Value] = field(default_factory=set)
    """The blocked values that rules have computed."""


def _chosen_block(op: ir.Operation, result: TensorType, lanes: int, state: PassState) -> int:
    """The channels in a block for an op at which a blocked part of the network begins. Raises NoMatch if it is to stay in the layout `PLAIN`.

    The predictions cover the differences: lanes without a channel, or columns in the plain layout, are computed too; and the plain layout needs
    conversions around ops on blocks. Convolutions that read the result sum over its channels block by block, so floats round differently.
    """

    def candidates() -> list[Candidate]:
        [channels] = static_sizes(result.shape[1:2])
        moved = float(result.elements * to_numpy(result.dtype).itemsize) if result.is_static else 0.0
        filled = {width: -(-channels // width) * width / max(channels, 1) for width in (lanes, 2 * lanes)}
        seconds = {str(width): state.machine.seconds(moved=moved * (part - 1)) for width, part in filled.items()}
        exact = "exact" if not is_float(result.dtype) else None
        blocked = [Candidate(name, time, {"channels": channels}, exact or name) for name, time in seconds.items()]
        return [*blocked, Candidate(PLAIN, state.machine.seconds(moved=2 * moved), arithmetic=exact or PLAIN)]

    wanted = state.choose("layout", op, candidates, str(lanes))
    if wanted == PLAIN:
        raise NoMatch("it is to stay in the plain layout")
    return int(wanted)


def _outcome(blocked: BlockedValue, *, moves_nothing: bool) -> str:
    """The outcome for an op, for `--explain`."""
    blocks, width = blocked.lanes.shape
    filling = int((blocked.lanes == FILLING).sum())
    what = "moves no data: its channels are found in other lanes" if moves_nothing else f"computed on {blocks} blocks of {width} channels"
    return what + (f", {filling} of these lanes filling" if filling else "")
