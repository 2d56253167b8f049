"""Which strategy computes the register tiles of a nest, what is said of the others, and what a strategy must answer."""

from dataclasses import replace
from typing import Any

import pytest

from stepwell.dialects.core.mlir import ir, make_context, ops_below
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.framework.decisions import Decisions, NoMatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg_to_affine.strategies import registry
from stepwell.passes.linalg_to_affine.strategies.base import CONSTANT
from stepwell.passes.linalg_to_affine.strategies.plain import PlainTiles
from stepwell.passes.linalg_to_affine.strategies.registry import ORDER, register_tile_strategy, tile_strategies
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.schedule.nest import Nest

PRODUCT = """
  memref.global "private" constant @small : memref<4x8xi8> = dense<3> {{alignment = 64 : i64}}
  func.func private @f(%x: memref<4x{k}xi8>, %y: memref<{right}xi8>, %o: memref<4x24xi32>) {{
    {global_}
    %zero = arith.constant {zero} : i32
    linalg.fill {{sched.nest = #sched.nest<{{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64,
      width = 8 : i64}}>}} ins(%zero : i32) outs(%o : memref<4x24xi32>)
    linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> ({order})>, affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]}} ins({left}, %y : memref<4x{k}xi8>, memref<{right}xi8>) outs(%o : memref<4x24xi32>) {{
    ^bb0(%a: i8, %b: i8, %s: i32):
      %u = arith.extsi %a : i8 to i32
      %v = arith.extsi %b : i8 to i32
      %p = arith.muli %u, %v : i32
      %t = arith.addi %s, %p : i32
      linalg.yield %t : i32
    }}
    return
  }}"""
ALONG, ACROSS = "k, j", "j, k"
PLAIN = Nest(order=(0, 1), parallel=0, unroll=(4, 1, 1), vector=1, width=8)
IN_LANES = replace(PLAIN, unroll=(2, 2, 1), vector=2, width=32)


def decided(
    nest: Nest, *, k: int = 64, order: str = ALONG, constant: bool = False, zero: int = 0, target: str = "x86-64-v3"
) -> list[tuple[str, bool, str]]:
    """What was decided about the tiles of a product with a schedule: by which strategy, whether it computes any, and why not."""
    left = "%c" if constant else "%x"
    read = "%c = memref.get_global @small : memref<4x8xi8>" if constant else ""
    right = f"{k}x24" if order == ALONG else f"24x{k}"
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(PRODUCT.format(k=k, order=order, right=right, left=left, zero=zero, global_=read))
        [op] = ops_below(module.operation, "linalg.generic")
        machine = resolve(target)
        nest.check(Structured(op), machine)
        ScheduleInfo(op).nest = nest
        state = PassState(target=machine, decisions=Decisions())
        PassRunner(state).run(module.operation, "func.func(lower-to-affine)")
        assert not list(ops_below(module.operation, "linalg.generic"))
        assert state.decisions is not None
        return [(d.by, d.done, "" if d.done else d.what) for d in state.decisions if d.op == "linalg.generic"]


def test_the_schedule_says_which_strategy_fits() -> None:
    assert decided(PLAIN) == [("plain", True, "")]
    assert decided(replace(PLAIN, unroll=(1, 1, 1)), order=ACROSS) == [
        ("transposed", False, "inputs [1] are gathered, and the tile has one iteration of each dimension along which they lie in memory"),
        ("plain", True, ""),
    ]
    assert decided(IN_LANES, order=ACROSS) == [("sums-in-lanes", True, "")]
    assert decided(replace(PLAIN, intrinsic="pmaddwd.256")) == [("dot-products", True, "")]
    assert decided(replace(IN_LANES, intrinsic="pmaddwd.256"), order=ACROSS) == [("dot-products", True, "")]


def test_what_a_strategy_leaves_is_computed_by_the_next() -> None:
    """Here the last 8 of 24 columns, of an intrinsic with 16 lanes."""
    nest = replace(PLAIN, width=16, intrinsic="pmaddwd.512")
    declined = "a vector of 8 is no multiple of the 16 lanes of 'pmaddwd.512'"
    assert decided(nest, target="x86-64-v4") == [("dot-products", False, declined), ("dot-products", True, ""), ("plain", True, "")]


def test_a_small_constant() -> None:
    assert decided(PLAIN, k=8, constant=True) == [("constant-matrices", True, "")]
    assert decided(PLAIN, k=8, constant=True, zero=1) == [("constant-matrices", False, "its sums do not begin with zero"), ("plain", True, "")]
    loops = replace(PLAIN, unroll=(1, 1, 1))
    changes = "its numbers differ from round to round, or from lane to lane"
    assert decided(loops, k=8, constant=True) == [("constant-matrices", False, changes), ("plain", True, "")]
    [_, *others] = decided(replace(PLAIN, intrinsic="pmaddwd.256"), k=8, constant=True, zero=1)
    assert others == [("dot-products", False, CONSTANT), ("plain", True, "")]


# --- strategies of plugins


@pytest.fixture
def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategies that are registered here are there for the test alone."""
    monkeypatch.setattr(registry, "_STRATEGIES", dict(registry._STRATEGIES))


def strategy(fits: Any = lambda cls, context: cls(context), compute: Any = PlainTiles.compute) -> type[PlainTiles]:
    """A class like plain tiles, with other answers."""
    return type("Own", (PlainTiles,), {"fits": classmethod(fits), "compute": compute})


@pytest.mark.usefixtures("_own")
def test_strategies_of_plugins_are_asked_first_and_the_last_one_before_the_others() -> None:
    register_tile_strategy("first", kinds=("contraction",))(strategy())
    register_tile_strategy("second", kinds=("contraction",))(type("Second", (strategy(lambda cls, context: NoMatch("not today")),), {}))
    assert [cls.name for cls in tile_strategies("contraction")] == ["second", "first", *ORDER]
    assert [cls.name for cls in tile_strategies("elementwise")] == ["transposed", "plain"]
    assert decided(PLAIN) == [("second", False, "not today"), ("first", True, "")]


@pytest.mark.usefixtures("_own")
def test_a_strategy_that_declines_tiles_leaves_them_to_the_built_in_ones() -> None:
    def compute(self: PlainTiles, tile: RegisterTile) -> Any:
        return PlainTiles.compute(self, tile) if tile.whole else NoMatch("too few rows")

    register_tile_strategy("whole")(strategy(compute=compute))
    nest = replace(PLAIN, unroll=(3, 1, 1))
    assert decided(nest) == [("whole", False, "too few rows"), ("whole", True, ""), ("plain", True, "")]


@pytest.mark.usefixtures("_own")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (strategy(lambda cls, context: True), r"tile strategy 'wrong': fits must give a TileStrategy, NoMatch or None, got True"),
        (strategy(compute=lambda self, tile: []), r"tile strategy 'wrong' gave 0 values for a tile of 'linalg.generic', expected 4"),
    ],
)  # fmt: skip
def test_what_a_strategy_must_answer(wrong: type[PlainTiles], said: str) -> None:
    register_tile_strategy("wrong")(wrong)
    with pytest.raises(PassError, match=said + r" \(.*test_registry\.py, line \d+\)"):
        decided(PLAIN)


@pytest.mark.usefixtures("_own")
def test_a_nest_that_nothing_fits() -> None:
    for name in tile_strategies("contraction"):
        registry._STRATEGIES.pop(name.name)
    registry._STRATEGIES.update(dict.fromkeys(ORDER, registry._Registered(strategy(lambda cls, context: None), frozenset(("contraction", "other")))))
    with pytest.raises(PassError, match=r"no tile strategy fits 'linalg\.generic' at loc"):
        decided(PLAIN)


@pytest.mark.usefixtures("_own")
def test_a_name_belongs_to_one_class() -> None:
    register_tile_strategy("mine")(strategy())
    register_tile_strategy("mine")(strategy())  # as when a plugin is loaded again
    with pytest.raises(PassError, match=r"tile strategy 'plain' is already registered by stepwell.*PlainTiles"):
        register_tile_strategy("plain")(strategy())
