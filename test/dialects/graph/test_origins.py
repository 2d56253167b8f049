"""What values are computed from: arguments, sizes, or something that no compilation can know."""

from collections.abc import Iterator

import numpy as np
import pytest

from stepwell.dialects.core.mlir import func, ir, make_context
from stepwell.dialects.core.sizes import symbol
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.known import KnownValues
from stepwell.dialects.graph.origins import OriginFinder, Origins

N = symbol("n")


class Setting:
    """A function of two arguments, a builder inside it, and a finder for it."""

    def __init__(self) -> None:
        types = [TensorType("i64", (3,)).to_mlir(), TensorType("f32", (N, 4)).to_mlir()]
        self.function = func.FuncOp("main", (types, []))
        self.block = self.function.add_entry_block()
        self.builder = GraphBuilder(WeightTable())
        self.finder = OriginFinder(KnownValues(self.builder.weights), lambda name: Origins(sizes=True) if name == "n" else None)
        self.finder.block = self.block
        self.numbers, self.x = self.block.arguments


@pytest.fixture
def made() -> Iterator[Setting]:
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            setting = Setting()
        with ir.InsertionPoint(setting.block):
            yield setting


def test_arguments_and_constants(made: Setting) -> None:
    b = made.builder
    constant = b.literal(np.array([1, 2, 3]))
    assert made.finder.origins_of(constant) == Origins()
    assert not made.finder.origins_of(constant)
    total = b.add(made.numbers, constant)
    assert made.finder.origins_of(total) == Origins(frozenset([made.numbers]))


def test_sizes(made: Setting) -> None:
    b = made.builder
    assert made.finder.origins_of(b.shape_of(made.x)) == Origins(sizes=True)
    both = b.concat([b.shape_of(made.x), made.numbers], axis=0)
    assert made.finder.origins_of(both) == Origins(frozenset([made.numbers]), sizes=True)
    assert made.finder.of_sizes([3, N + 1]) == Origins(sizes=True)
    assert made.finder.of_sizes([symbol("other")]) is None
    assert made.finder.of_sizes([None]) is None


def test_sizes_that_depend_on_data(made: Setting) -> None:
    found = made.finder.origins_of(made.builder.non_zero(made.numbers))
    assert found == Origins(frozenset([made.numbers]), by_data=True)


def test_what_is_too_large_is_not_computed(made: Setting) -> None:
    wide = made.builder.expand(made.builder.reshape(made.numbers, shape=(1, 3)), shape=(1 << 20, 3))
    assert made.finder.origins_of(wide) is None


def test_arguments_of_other_blocks_are_not_known(made: Setting) -> None:
    inner = made.function.regions[0].blocks.append(TensorType("i64", ()).to_mlir())
    assert made.finder.origins_of(inner.arguments[0]) is None
