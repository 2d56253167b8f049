"""The pass that gives few images a kernel of their own where Winograd's method has filters for them."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.packed import WinogradConvOp
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions, version_for_few

VERSIONED = "packed.versioned_winograd_conv"


@register_pass("version-winograd", level="graph-opt", optional=True)
@dataclass
class VersionWinograd(Pass):
    """Split a kernel with a `packed.versioned_winograd_conv` into one for many images and one for few, each with the tile and filters for these.

    rewrite: @k { packed.versioned_winograd_conv(x, u, few) }  ->
             @k { packed.winograd_conv(x, u) } and @k.few { packed.winograd_conv(x, few) } {stepwell.version = {of = "k", size = "n", most = 1}}

    Both take all filters, so that `merge-versions` can make one function of them. Loops are fused in each for the numbers of images that it is for.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        builder = GraphBuilder(state.weights)
        for kernel in functions(op):
            found = ops_below(kernel.operation, VERSIONED)
            images = type_of(found[0].opview.x).shape[0] if len(found) == 1 and KernelInfo(kernel).is_kernel else None
            if isinstance(images, Size):
                _split(kernel, images, found[0].opview.attribute_values()["most"], builder)
                state.count(self.name)


def _split(kernel: Any, images: Size, most: int, builder: GraphBuilder) -> None:
    for function, few in ((version_for_few(kernel, images, most), True), (kernel, False)):
        [conv] = ops_below(function.operation, VERSIONED)
        view = conv.opview
        values = view.attribute_values()
        with ir.InsertionPoint(conv), conv.location:
            filters, tile = (view.few, values["few_tile"]) if few else (view.u, values["tile"])
            made = builder.build(WinogradConvOp, view.x, filters, tile=tile, group=values["group"], transformed=True)
        conv.results[0].replace_all_uses_with(made)
        conv.erase()
