"""The `packed` dialect: ops that fix a data layout or a method of computation for a CPU with vectors. Importing it registers them.

- on images in blocks of channels, (N, C / b, spatial…, b): `conv`, `depthwise_conv`, `bordered_conv`, `lrn`; `relayout` and `masked`, which arrange
    lanes as convolutions expect them;
- on matrices in panels of columns: `matmul`, and `low_bit_matmul`, whose weights stay in 4 or 8 bits;
- by Winograd's minimal filtering, on blocks of channels: `winograd_conv`, `integer_winograd_conv`.

The passes of `passes/packed` create them; a backend without these (the phase `layout for vectors`) never sees one. An op stays in
`graph` if it means the same on any layout: element-wise ops, pads, concatenations, reductions, poolings and pixel shuffles, which keep the dimension
after the spatial ones, and recurrent layers, whose weights lie in panels of any width.
"""

from stepwell.dialects.packed.bordered_conv import BorderedConvOp as BorderedConvOp
from stepwell.dialects.packed.conv import PackedConvOp as PackedConvOp, PackedDepthwiseConvOp as PackedDepthwiseConvOp
from stepwell.dialects.packed.dialect import Packed as Packed
from stepwell.dialects.packed.images import MaskedOp as MaskedOp, PackedLrnOp as PackedLrnOp, RelayoutOp as RelayoutOp
from stepwell.dialects.packed.integer_winograd import IntegerWinogradConvOp as IntegerWinogradConvOp
from stepwell.dialects.packed.matmul import LowBitMatmulOp as LowBitMatmulOp, PackedMatmulOp as PackedMatmulOp
from stepwell.dialects.packed.winograd import WinogradConvOp as WinogradConvOp
