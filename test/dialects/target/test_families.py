"""What families of machines say of their own: vectors, capabilities, dot products, costs; and that passes ask them."""

from dataclasses import replace

import pytest
from every import every

import stepwell
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.target import families
from stepwell.dialects.target.capabilities import PLAIN, widest
from stepwell.dialects.target.costs import COMMON, Costs
from stepwell.dialects.target.description import GENERIC, describe
from stepwell.dialects.target.dot_products import all_dot_products, dot_products
from stepwell.dialects.target.families import Family, family_of, features_of_intrinsic, register_family
from stepwell.dialects.target.numbers import Caches, Pipes, Vectors
from stepwell.dialects.target.registry import resolve, target_names

TABLE = {  # masked bits, maxima that select, conversions that round, lanes of bf16 rounding, lanes of scaling, registers of two dimensions
    "x86-64-v2": ((), True, True, (), (), 0),
    "x86-64-v3": ((32, 64), True, True, (), (), 0),
    "x86-64-v4": ((32, 64), True, True, (), (16, 8, 4), 0),
    "avx-vnni": ((32, 64), True, True, (), (), 0),
    "x86-64-v4-vnni": ((32, 64), True, True, (), (16, 8, 4), 0),
    "x86-64-v4-bf16": ((32, 64), True, True, (16, 8), (16, 8, 4), 0),
    "x86-64-v4-amx": ((32, 64), True, True, (16, 8), (16, 8, 4), 8),
    "aarch64-neon": ((), False, False, (), (), 0),
    "aarch64-dotprod": ((), False, False, (), (), 0),
    "riscv64-v": ((), False, False, (), (), 0),
    "wasm32-simd128": ((), True, False, (), (), 0),
}
DOT_PRODUCTS = {
    "x86-64-v2": [],
    "x86-64-v3": ["pmaddwd.256", "pairs-bf16.256"],
    "avx-vnni": ["pmaddwd.256", "vpdpwssd.256", "vpdpbusd.256", "pairs-bf16.256"],
    "aarch64-neon": ["smlal.128", "pairs-bf16.128"],
    "aarch64-dotprod": ["smlal.128", "sdot.128", "udot.128", "pairs-bf16.128"],
}


@every("name", list(TABLE))
def test_capabilities(name: str) -> None:
    can = resolve(name).capabilities
    lanes = [tuple(width for width, _ in table) for table in (can.bf16_rounding, can.power_scaling)]
    tiles = 0 if can.tile_registers is None else can.tile_registers.count
    assert (tuple(sorted(can.masked_bits)), can.maximum_selects, can.conversion_rounds, *lanes, tiles) == TABLE[name]


def test_every_named_target_is_in_the_table() -> None:
    assert set(TABLE) == set(target_names()) - {"host"}


@every("name", list(DOT_PRODUCTS))
def test_dot_products(name: str) -> None:
    assert sorted(i.name for i in dot_products(resolve(name))) == sorted(DOT_PRODUCTS[name])


def test_dot_products_of_all_families_are_there() -> None:
    assert len({i.name for i in all_dot_products()}) == len(all_dot_products()) >= 18
    assert dot_products(GENERIC) == []


def test_vectors_of_machines() -> None:
    found = {name: (t.vector_bits, t.vector_registers, t.fma, t.family) for name in TABLE for t in [resolve(name)]}
    assert found["x86-64-v2"] == (128, 16, False, "x86_64")
    assert found["x86-64-v3"] == (256, 16, True, "x86_64")
    assert found["x86-64-v4"] == (512, 32, True, "x86_64")
    assert found["aarch64-neon"] == (128, 32, True, "aarch64")
    wide = frozenset({"avx", "avx512f", "fma"})
    assert describe("a", "x86_64-pc", "znver4", wide).pipes == Pipes(fmas=1, latency=4, loads=1)
    assert describe("a", "x86_64-pc", "znver5", wide).pipes == describe("a", "x86_64-pc", "znver4", wide - {"avx512f"}).pipes == Pipes(2, 4, 2)


def test_the_widest_instruction_that_fills_its_lanes() -> None:
    table = resolve("x86-64-v4").capabilities.power_scaling
    assert [found and found[0] for found in (widest(table, lanes) for lanes in (1, 2, 4, 6, 8, 12, 16, 24, 48))] == [
        None, None, 4, None, 8, 4, 16, 8, 16,
    ]  # fmt: skip
    assert widest((), 16) is None


@every(
    ("name", "features"),
    [
        ("llvm.x86.avx512bf16.cvtneps2bf16.512", ("avx512bf16",)), ("llvm.x86.avx512.vpdpbusd.256", ("avx512vnni", "avxvnni")),
        ("llvm.x86.avx512.pmaddw.d.512", ("avx512f",)), ("llvm.x86.avx2.pmadd.wd", ("avx2",)), ("llvm.x86.tdpbssd.internal", ("amx-tile",)),
        ("llvm.aarch64.neon.sdot.v4i32.v16i8", ("neon",)), ("llvm.fma.f32", ()), ("llvm.lrint", ()),
    ],
)  # fmt: skip
def test_features_of_intrinsics(name: str, features: tuple[str, ...]) -> None:
    assert features_of_intrinsic(name) == features


def test_an_unknown_architecture_has_plain_vectors() -> None:
    machine = describe("board", "loongarch64-unknown-elf", "generic", frozenset({"v"}))
    assert (machine.family, machine.vector_bits, machine.capabilities, machine.costs) == ("loongarch64", 128, PLAIN, COMMON)
    assert dot_products(machine) == []


def family(name: str, architecture: str) -> Family:
    return Family(name, (architecture,), lambda _: Vectors(64, 8, fma=False), Caches(8 << 10, 64 << 10, 64 << 10), lambda *_: Pipes(1, 5, 1))


def test_a_family_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))
    try:
        mine = register_family(family("mips", "mips64"))
        machine = describe("router", "mips64-unknown-linux", "octeon", frozenset())
        assert (machine.family, machine.vector_bits, machine.vector_registers, machine.caches) == ("mips", 64, 8, mine.caches)
        with pytest.raises(InputError, match="target family 'x86_64' is already there"):
            register_family(family("x86_64", "other"))
        with pytest.raises(InputError, match="target family 'aarch64' is already there, for arm64"):
            register_family(family("mine", "arm64"))
    finally:
        family_of.cache_clear()


ADD = """
<ir_version: 9, opset_import: ["" : 17]>
sum (float[300, 300] x) => (float[300, 300] y) { y = Add (x, x) }
"""


@every(("least", "parallel"), [(90_000, 1), (90_001, 0)])
def test_passes_ask_for_the_costs_of_the_target(least: int, parallel: int) -> None:
    from onnx import parser

    target = replace(resolve("x86-64-v3"), name="mine", costs=Costs(threaded_work=least))
    text = stepwell.lower(parser.parse_model(ADD), "scheduled", target=target).text()
    assert f"parallel = {parallel} : i64" in text
    assert "costs" in text  # and the IR says it, for whatever goes on from there


def test_costs_survive_text() -> None:
    from onnx import parser

    target = replace(resolve("x86-64-v3"), name="mine", costs=Costs(bytes_per_cycle=(32.0, 8.0, 2.5), page_bytes=16384))
    lowered = stepwell.lower(parser.parse_model(ADD), "linalg", target=target)
    again = stepwell.read_ir(lowered.text(), "linalg", lowered.weights)
    assert again.target is not None
    assert again.target.costs == target.costs
