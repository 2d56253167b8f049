"""The pass that decides where data is channel-blocked, and carries that layout from convolution to convolution."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import find_function
from stepwell.passes.graph.layout.channel_blocks import Form, Layout, rule_of
from stepwell.passes.graph.layout.channel_layouts import FILLING
from stepwell.passes.graph.layout.channel_readers import readers
from stepwell.passes.graph.layout.layout_rules import elementwise
from stepwell.passes.graph.matching import is_elementwise


@register_pass("block-channels", level="graph", optional=True, switches={"unmasked-lanes": "mask=true"}, relaxed=("unmasked-lanes",))
@dataclass
class BlockChannels(Pass):
    """Keep images channel-blocked, (N, C / b, spatial…, b), from one convolution to the next.

    rewrite: conv(x, w)               -> unpack(blocked_conv(pack(x), w packed now))
    rewrite: conv(x, w) by channel    -> unpack(blocked_depthwise_conv(x', w packed now))      where x = unpack(x')
    rewrite: f(unpack(x'), …)         -> unpack(f(x', …))      for element-wise ops, poolings, pads, reductions, concatenations, lrn
    rewrite: shuffle(unpack(x'))      -> unpack(x')            for a permutation of channels

    pack and unpack are a reshape and a transpose, and are not needed where blocked values meet. Which channel lies in which lane is known
    here and nowhere else: weights are packed for it, so that a permutation of channels moves no data. Lanes that hold no channel
    have weights of zero, so what is in them does not matter as long as it is finite. It is where the data are: 0 times an infinity is NaN, which
    a clip leaves, although it makes a finite number of the infinity, and which all that read the block then get. With `mask` these lanes
    are kept at zero.

    rewrite: blocked_conv(x, w)       -> masked(blocked_conv(x, w), 1 or 0 for each lane)      with `mask`, where lanes hold no channel

    The filters of a convolution whose result goes on to one in groups are put into such an order that each group finds its
    channels in neighbouring lanes. Where one layout cannot serve two ops, `reblock` moves channels between lanes.
    """

    block: int = 0  # channels in a block; 0 for the lanes of the target's vectors
    mask: bool = False  # whether lanes that hold no channel are kept at zero, whatever the data are

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = find_function(op, "main")
        operations = [o.operation for o in main.regions[0].blocks[0].operations]
        forms: dict[ir.Value, Form] = {}
        made: set[ir.Value] = set()
        for operation, read_by in zip(operations, readers(operations), strict=True):
            rule = rule_of(operation) or (elementwise if is_elementwise(operation.opview) else None)
            if rule is None or len(operation.results) != 1:
                continue
            if not all(t.is_static for t in operation.opview.result_types()):
                state.decline(self.name, operation, NoMatch("the size of its result is not known"))
                continue
            dtype = type_of(operation.results[0]).dtype
            block = self.block or state.machine.lanes(8 * to_numpy(dtype).itemsize)
            layout = Layout(state, block, self.mask, forms, read_by)
            with ir.InsertionPoint(operation), operation.location:
                form = rule(operation.opview, layout)
                if isinstance(form, NoMatch):
                    state.decline(self.name, operation, form)
                    continue
                if not isinstance(form, Form):
                    raise PassError(f"the layout rule of '{operation.name}' must give a Form or NoMatch, got {type(form).__name__}")
                state.did(self.name, operation, _told(form, moves_nothing=form.value in made))
                if form.value in made:  # nothing is computed: who wants the plain form does what was there
                    forms[operation.results[0]] = form
                    continue
                made.add(form.value)
                plain = layout.unpack(form)
            forms[plain] = form
            operation.results[0].replace_all_uses_with(plain)
            operation.erase()
            state.count(self.name)


def _told(form: Form, *, moves_nothing: bool) -> str:
    """What became of an op, for who asks."""
    blocks, lanes = form.slots.shape
    filling = int((form.slots == FILLING).sum())
    what = "moves no data: its channels are found in other lanes" if moves_nothing else f"computed on {blocks} blocks of {lanes} channels"
    return what + (f", {filling} of these lanes filling" if filling else "")
