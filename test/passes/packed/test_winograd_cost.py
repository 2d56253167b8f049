"""The costs of convolutions by Winograd's method follow the target's."""

from dataclasses import replace

import pytest

from stepwell.dialects.target.costs import COMMON, Costs
from stepwell.passes.packed.use_winograd import UseWinograd
from stepwell.passes.packed.winograd_cost import Sizes, best, winograd_cost

CUT = Sizes(images=1, rows=55, columns=55, channels=16, filters=64, group=1)
"""A convolution of squeezenet: its rows and columns do not fill tiles of four."""


def test_a_cut_costs_as_much_as_handing_the_result_on_twice() -> None:
    options = UseWinograd().for_target(COMMON)
    more = winograd_cost(4, CUT, options) - winograd_cost(4, replace(CUT, rows=56, columns=56), options)
    written_and_read = COMMON.write_reads + 1
    assert more == pytest.approx(COMMON.flops_per_byte * 2 * written_and_read * 4 * 55 * 55 * 64)


@pytest.mark.parametrize(("write_reads", "tile"), [(1.0, 4), (2.0, 4), (20.0, 0)])
def test_where_stores_are_slow_nothing_is_cut(write_reads: float, tile: int) -> None:
    """The direct method, tile 0, needs no cut. What a pass is told goes before the target's."""
    slow = Costs(write_reads=write_reads)
    assert best([UseWinograd().for_target(slow).variants(CUT, 9 * 16 * 64)], slack=0.08).tile == tile
    assert best([UseWinograd(handed_on=0.0).for_target(slow).variants(CUT, 9 * 16 * 64)], slack=0.08).tile == 4
