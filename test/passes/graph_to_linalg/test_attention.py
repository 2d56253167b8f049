"""Attention as one kernel: what ONNX Runtime gives for the ops it is made of, in the memory of a few heads or queries."""

import re
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from every import every
from native_checks import check_model, natively_together
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.graph.attention import AttentionOp
from stepwell.dialects.target.description import Caches
from stepwell.dialects.target.registry import resolve
from stepwell.passes.schedule.fuse_loops import FuseLoops

EPSILON = np.finfo(np.float32).eps
# Queries (…, queries, depth), keys (…, depth, keys), values (…, keys, columns), and a mask that broadcasts to the scores.
CASES = {
    "heads": ((1, 12, 65, 16), (1, 12, 16, 33), (1, 12, 33, 17), None),
    "masked keys": ((2, 3, 18, 8), (2, 3, 8, 65), (2, 3, 65, 24), (2, 1, 1, 65)),
    "masked scores": ((3, 64, 5), (3, 5, 64), (3, 64, 9), (64, 64)),
    "one query": ((4, 1, 32), (4, 32, 300), (4, 300, 32), None),
    "no heads": ((200, 16), (16, 190), (190, 7), (190,)),
    "shared keys": ((2, 6, 40, 16), (1, 1, 16, 48), (48, 16), (1, 6, 40, 48)),
}


def model(name: str, scale: float, *, divided: bool = False) -> onnx.ModelProto:
    """softmax(q k scale + mask) v as frameworks export it."""
    q, k, v, mask = CASES[name]
    nodes = [helper.make_node("MatMul", ["q", "k"], ["products"])]
    nodes.append(helper.make_node("Div" if divided else "Mul", ["products", "scale"], ["scaled"]))
    if mask is not None:
        nodes.append(helper.make_node("Add", ["mask", "scaled"], ["masked"]))
    nodes.append(helper.make_node("Softmax", ["masked" if mask is not None else "scaled"], ["weights"], axis=-1))
    nodes.append(helper.make_node("MatMul", ["weights", "v"], ["y"]))
    inputs = {"q": q, "k": k, "v": v, **({} if mask is None else {"mask": mask})}
    declared = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()]
    constant = numpy_helper.from_array(np.array(1 / scale if divided else scale, np.float32), "scale")
    graph = helper.make_graph(nodes, "g", declared, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [constant])
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def arrays(name: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(name))
    found = {n: rng.standard_normal(shape, np.float32) for n, shape in zip("qkvm", CASES[name], strict=True) if shape is not None}
    if "m" in found:
        found["mask"] = np.where(found.pop("m") > 0.5, -np.inf, 0).astype(np.float32)
        found["mask"][..., 0] = 0  # or a row of weights would be 0 / 0
    return found


# A machine with next to no cache, for which a few queries at a time are as many as fit.
SMALL = replace(resolve("host"), caches=Caches(l1d=512, l2=8192, l3=1 << 24))


@pytest.fixture(params=[0, 1, 3], ids=["by_size", "few_queries", "three_chunks"])
def chunks(request, monkeypatch):
    """In how many pieces queries are computed; these are too small for slices of their own accord."""
    if request.param:
        monkeypatch.setattr(FuseLoops, "_chunks", lambda *_: request.param)
    return request.param


@pytest.mark.parametrize("without", [None, "fuse-loops", pytest.param("fuse-attention", marks=pytest.mark.nightly)])
@natively_together
@every("name", CASES)
def test_it_gives_what_its_ops_give(name, chunks, without):
    proto, given, scale = model(name, 0.25, divided=chunks == 3), arrays(name), 0.25
    assert stepwell.lower(proto, "graph-opt").text().count('"graph.attention"') == 1
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given)
    # An error of a score, the sum of `depth` products, is one of its weight, relatively; a result adds up weighted values.
    scores = np.abs(given["q"]) @ np.abs(given["k"]) * scale
    depth, keys = given["k"].shape[-2:]
    allowed = EPSILON * (4 * (depth + 2) * scores.max() + 2 * keys + 16) * np.abs(given["v"]).max()
    assert np.isfinite(want).all()
    first = {}

    def judge(got):
        assert np.abs(got["y"] - want).max() <= allowed
        np.testing.assert_array_equal(got["y"], first.setdefault("y", got["y"]))

    options = {"target": SMALL} if chunks else {}
    check_model(proto, given, judge, threads=[1] if without else (1, 2), **options, disable=(without,) if without else ())


def test_small_caches_ask_for_few_queries(monkeypatch):
    monkeypatch.setattr(FuseLoops, "_chunks", lambda *_: 3)
    fused = [name for name in CASES if "sched.fused" in stepwell.lower(model(name, 0.25), "linalg", target=SMALL).text()]
    assert {"heads", "masked scores", "shared keys"} <= set(fused)


def test_scores_stay_in_slices():
    heads, queries, keys = 16, 256, 256
    CASES["large"] = ((heads, queries, 64), (heads, 64, keys), (heads, keys, 64), None)
    try:
        proto = model("large", 0.125)
    finally:
        del CASES["large"]
    whole = heads * queries * keys * 4
    texts = [stepwell.lower(proto, "affine", target="x86-64-v3", **chosen).text() for chosen in ({}, {"disable": ["fuse-loops"]})]
    fused, apart = ([int(n) for n in re.findall(r"stepwell.scratch_bytes = (\d+)", text)] for text in texts)
    assert len(fused) == len(apart) == 1
    assert fused[0] <= whole / 2
    assert apart[0] >= 2 * whole  # the scores and their powers


def test_weights_that_are_a_result_are_computed_apart():
    proto = model("heads", 0.5)
    proto.graph.output.append(helper.make_tensor_value_info("weights", TensorProto.FLOAT, (1, 12, 65, 33)))
    assert '"graph.attention"' not in stepwell.lower(proto, "graph-opt").text()
    got = stepwell.compile(proto).run(arrays("heads"))
    want = onnxruntime.InferenceSession(proto.SerializeToString()).run(["weights"], arrays("heads"))[0]
    np.testing.assert_allclose(got["weights"], want, rtol=1e-5, atol=1e-7)


def test_the_reference_is_what_the_formula_says():
    q, k, v, mask = (arrays("masked keys")[n] for n in ("q", "k", "v", "mask"))
    scores = np.asarray(q, np.float64) @ k * 0.25 + mask
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    want = powers / powers.sum(axis=-1, keepdims=True) @ v
    np.testing.assert_allclose(AttentionOp.reference(q, k, v, mask, scale=0.25), want, rtol=1e-4, atol=1e-5)
