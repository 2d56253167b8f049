"""Schedules with equal arithmetic compute equal bits, and the others are worth telling apart."""

from collections.abc import Iterable
from dataclasses import replace
from operator import eq
from random import Random

import numpy as np
import onnx
import pytest
from every import every
from onnx import TensorProto, helper, numpy_helper
from schedule_variants import results

import stepwell
from stepwell.dialects.sched.nest import NestKnobs
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg.structured import Structured, structured_ops
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.nest import Nest
from stepwell.signature import TensorInfo
from stepwell.tuning.sites import find_sites

RANDOM = np.random.default_rng(3)
F32, F64, U8 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.UINT8


def model(nodes: list[onnx.NodeProto], kind: int, shape: Iterable[int], **arrays: np.ndarray) -> onnx.ModelProto:
    """A model of one input `x` and one output `y`."""
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", kind, list(shape))], [onnx.ValueInfoProto(name="y")], weights)
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


node = helper.make_node
MODELS = {
    "product": model([node("MatMul", ["x", "w"], ["y"])], F32, (7, 37), w=floats(37, 45)),
    # with an image that is mostly zero, sums of -0, which must begin with zero in each schedule
    "convolution": model([node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], F32, (1, 3, 9, 11), w=-abs(floats(13, 3, 3, 3))),
    "maximum": model([node("ReduceMax", ["x", "a"], ["y"])], F32, (4, 7, 67), a=np.array([1])),
    "softmax": model([node("Softmax", ["x"], ["y"])], F32, (7, 53)),
    "sum": model([node("ReduceSum", ["x", "a"], ["y"])], F64, (5, 7, 43), a=np.array([1, 2])),
    "bytes": model([node("MatMulInteger", ["x", "w"], ["y"])], U8, (7, 36), w=RANDOM.integers(-128, 127, (36, 45)).astype(np.int8)),
}
USUAL = ("product", "convolution", "bytes")
"""Models whose default schedules add in the order of the loops, or integers, which have none."""


def data(info: TensorInfo, *, sparse: bool = False) -> np.ndarray:
    """Numbers of many sizes, of both signs, off centre, and zeros of both signs; or, `sparse`, few positive numbers among zeros."""
    shape = tuple(n for n in info.shape if isinstance(n, int))
    if info.dtype.kind in "iu":
        limits = np.iinfo(info.dtype)
        return RANDOM.integers(limits.min, limits.max, shape, info.dtype, endpoint=True)
    if sparse:
        return np.where(RANDOM.random(shape) < 0.05, RANDOM.random(shape), 0).astype(info.dtype)
    numbers = RANDOM.standard_normal(shape) * np.exp(2 * RANDOM.standard_normal(shape)) + 0.3
    return np.where(RANDOM.random(shape) < 0.6, np.copysign(0.0, numbers), numbers).astype(info.dtype)


@every("name", MODELS)
def test_equal_arithmetic_is_equal_bits(name: str) -> None:
    random = Random(name)
    lowered = stepwell.lower(MODELS[name], "scheduled", recording=True, target="x86-64-v3")
    infos = [TensorInfo.from_type(*named) for named in lowered.info.inputs]
    inputs = {info.name: data(info, sparse=name == "convolution") for info in infos}
    sites = find_sites(lowered, rounding=True, floors=("schedule",))
    [kernel] = {max(sites, key=lambda site: site.seconds or 0).info.name.partition(":")[0]}
    own = [site for site in sites if site.info.name.startswith(f"{kernel}:")]
    changes = [(site, site.space.sample(random)) for site in own for _ in range(2 if len(own) > 1 else 5)]
    with lowered.module.context:
        wanted = [tuple(arithmetic(site.space.nest(name), site.space.op) for name in (text, site.space.default)) for site, text in changes]
    fresh = stepwell.lower(MODELS[name], "scheduled", target="x86-64-v3")
    usual, *found = results(fresh, kernel, [(site.op, site.space.nest(text)) for site, text in changes], inputs)
    by_arithmetic = {}
    for (site, text), (own_sums, usual_sums), bits in zip(changes, wanted, found, strict=True):
        first = usual if own_sums == usual_sums else by_arithmetic.setdefault((site.op, own_sums), bits)
        assert bits == first, (text, own_sums)
    if name in USUAL:
        with lowered.module.context:
            sums = [arithmetic(site.space.nest(site.space.sample(random)), site.space.op) for site in own for _ in range(40)]
            usual_sums = [arithmetic(site.space.nest(site.space.default), site.space.op) for site in own for _ in range(40)]
        assert sum(map(eq, sums, usual_sums)) * 3 >= len(sums), "many schedules compute the default's bits"


def root(name: str) -> Structured:
    """The structured op of a model that sums most."""
    lowered = stepwell.lower(MODELS[name], "scheduled", target="x86-64-v3")
    ops = [op for function in functions(lowered.module.operation) for op in structured_ops(function.operation) if not op.is_fill]
    KEPT.append(lowered)
    with lowered.module.context:
        return max(ops, key=lambda op: len(op.reduction_dims) * 1000 + sum(op.sizes))


KEPT: list[object] = []
"""Modules of ops in use."""


def test_what_changes_the_order_of_sums() -> None:
    op = root("convolution")
    first, inner, last = op.reduction_dims
    assert [op.sizes[d] for d in op.reduction_dims] == [3, 3, 3]
    plain = Nest(tuple(op.parallel_dims), 0, (1,) * len(op.sizes), -1, 1)

    def with_(**knobs: object) -> str:
        return arithmetic(NestKnobs(**{**vars(plain), **knobs}), op)  # type: ignore[arg-type]

    def blocks(**sizes: int) -> tuple[int, ...]:
        return tuple(sizes.get(f"d{d}", 0) for d in range(len(op.sizes)))

    assert with_() == with_(unroll=(2,) * len(op.sizes), parallel=1, prefetch=4) == with_(vector=op.parallel_dims[-1], width=8) == ""
    assert with_(vector=last, width=2) == "lanes.r2=2" != with_(vector=first, width=2)
    assert with_(vector=last, width=2) == with_(vector=last, width=64), "no wider than the dimension"
    assert with_(block=blocks(**{f"d{first}": 2})) == "", "blocks of the outermost dimension keep the order"
    assert with_(block=blocks(**{f"d{inner}": 2})) == "block.r1=2"
    assert with_(block=blocks(**{f"d{first}": 1, f"d{inner}": 2})) == "", "one iteration of the outer dimension at a time"
    assert with_(intrinsic="vdpbf16ps.512") == "by=vdpbf16ps.512"
    with op.operation.context:
        ScheduleInfo(op.operation).part = 2
    assert with_(block=blocks(**{f"d{first}": 2})) == "block.r0=2", "sums in parts begin anew in each block"
    most = root("maximum")
    odd = Nest(tuple(most.parallel_dims), 0, (1,) * len(most.sizes), -1, 1)
    assert arithmetic(odd, most).startswith("tile="), "of two zeros either"
    [even] = [d for d in most.parallel_dims if most.sizes[d] == 4]
    assert arithmetic(replace(odd, vector=even, width=4), most) == "", "no element is left over after the vectors"
    whole = root("bytes")
    free = Nest(tuple(whole.parallel_dims), 0, (1,) * len(whole.sizes), whole.reduction_dims[-1], 4)
    assert arithmetic(free, whole) == "", "integers wrap"


def test_other_arithmetic_has_other_bits() -> None:
    """The texts are no finer than needed where sums of floats are long."""
    lowered = stepwell.lower(MODELS["sum"], "scheduled", recording=True, target="x86-64-v3")
    inputs = {info.name: data(info) for info in (TensorInfo.from_type(*named) for named in lowered.info.inputs)}
    [site] = [site for site in find_sites(lowered, rounding=True, floors=("schedule",)) if site.space.op.reduction_dims]
    usual_sums = arithmetic(site.space.nest(site.space.default), site.space.op)
    others = [text for text in site.space.near(site.space.default) if arithmetic(site.space.nest(text), site.space.op) != usual_sums]
    changes = [(site.op, site.space.nest(text)) for text in others[:3]]
    assert changes
    kernel = site.info.name.partition(":")[0]
    usual, *found = results(stepwell.lower(MODELS["sum"], "scheduled", target="x86-64-v3"), kernel, changes, inputs)
    assert any(bits != usual for bits in found)


if __name__ == "__main__":
    pytest.main([__file__])
