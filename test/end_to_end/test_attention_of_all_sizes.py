"""Attention of several heads with free batches and sequences, ONNX's and com.microsoft's: one program for all sizes, as ONNX Runtime."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
from covering import by_day
from importing import assert_close
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from other_domains import MICROSOFT

import stepwell
from stepwell.driver.dynamic import DynamicModel

N, H, KV, MOST = 4, 16, 2, 48  # heads of queries, their size, heads of keys that are shared, the longest sequence
SIZES = ((2, 5, 3), (1, 1, 6), (3, 7, 1), (1, 16, 9), (2, 1, 20), (1, 9, 0), (2, 5, 3))  # sequences, new tokens, past ones
FLOAT, INT, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
Sizes = dict[str, int]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Network:
    """Nodes, the types and shapes of the inputs, weights, and what to give where random floats are not meant."""

    nodes: Sequence[NodeProto]
    inputs: dict[str, tuple[int, list[Any]]]
    weights: Arrays
    given: Callable[[Sizes], Arrays] = lambda sizes: {}
    outputs: Sequence[str] = ("y",)

    def model(self) -> ModelProto:
        values = [helper.make_tensor_value_info(name, *kind) for name, kind in self.inputs.items()]
        made = [helper.make_tensor_value_info(name, FLOAT, None) for name in self.outputs]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(list(self.nodes), "heads", values, made, weights)
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=11)

    def arrays(self, sizes: Sizes, seed: int) -> Arrays:
        found = self.given(sizes)
        for i, (name, (_, shape)) in enumerate(self.inputs.items()):
            if name not in found:
                found[name] = floats(*(sizes.get(dim, dim) for dim in shape), seed=seed + i)
        return {name: found[name] for name in self.inputs}


def node(op: str, inputs: str, outputs: str = "y", domain: str = MICROSOFT, **attributes: Any) -> NodeProto:
    """A node; names are separated by blanks, and `-` leaves an input or output out."""
    names = [[n.replace("-", "") for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, domain=domain, **attributes)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)


def flags(*shape: int) -> np.ndarray:
    """0 and 1 in i32, the first key always kept."""
    out = (np.random.default_rng([*shape]).random(shape) < 0.6).astype(np.int32)
    out[..., :1] = 1
    return out


def lengths(sizes: Sizes) -> Arrays:
    """What GroupQueryAttention is told of full sequences."""
    total = sizes["s"] + sizes["p"]
    return {"len": np.full(sizes["n"], total - 1, np.int32), "total": np.array([total], np.int32)}


TABLE = floats(MOST, H // 2, seed=9)
ANGLES = {"cos": np.cos(TABLE), "sin": np.sin(TABLE)}
PROJECTED = {"w": floats(7, 3 * N * H, seed=2) / 3, "b": floats(3 * N * H, seed=1)}
TOKENS = {name: (FLOAT, ["n", "s", N * H]) for name in "qkv"}
PAST = {name: (FLOAT, ["n", N, "p", H]) for name in ("pk", "pv")}
SHARED = {"q": (FLOAT, ["n", "s", N * H]), **{name: (FLOAT, ["n", "s", KV * H]) for name in "kv"}}
CACHE = {name: (FLOAT, ["n", KV, "p", H]) for name in ("pk", "pv")}
TOLD = {"len": (INT, ["n"]), "total": (INT, [1])}
GROUPS = {"num_heads": N, "kv_num_heads": KV}
COUNTED = [  # as exported models count: a mask of all tokens says how many there are
    node("ReduceSum", "mask ones", "counts", "", keepdims=0), node("Sub", "counts one", "less", ""), node("Cast", "less", "len", "", to=INT),
    node("Shape", "mask", "shape", ""), node("Gather", "shape at", "wide", ""), node("Cast", "wide", "total", "", to=INT),
]  # fmt: skip
NUMBERS = {"ones": np.array([1]), "one": np.array(1), "at": np.array([1])}

NETWORKS = {
    "projected": Network([node("Attention", "x w b", num_heads=N)], {"x": (FLOAT, ["n", "s", 7])}, PROJECTED),
    "projected_lengths": Network(
        [node("Attention", "x w b m", num_heads=N)], {"x": (FLOAT, ["n", "s", 7]), "m": (INT, ["n"])}, PROJECTED,
        lambda sizes: {"m": (1 + np.arange(sizes["n"]) % sizes["s"]).astype(np.int32)},
    ),
    "projected_mask": Network(
        [node("Attention", "x w b m", num_heads=N, unidirectional=1)], {"x": (FLOAT, ["n", "s", 7]), "m": (INT, ["n", "s"])}, PROJECTED,
        lambda sizes: {"m": flags(sizes["n"], sizes["s"])},
    ),
    "projected_past": Network(
        [node("Attention", "x w b - past", "y present", num_heads=N, unidirectional=1)],
        {"x": (FLOAT, ["n", "s", 7]), "past": (FLOAT, [2, "n", N, "p", H])}, PROJECTED, outputs=("y", "present"),
    ),
    "many_heads": Network(
        [node("MultiHeadAttention", "q k v b m a", num_heads=N)],
        {"q": (FLOAT, ["n", "s", N * H]), "k": (FLOAT, ["n", "t", N * H]), "v": (FLOAT, ["n", "t", N * H]), "m": (INT, ["n", "t"]),
         "a": (FLOAT, [1, N, "s", "t"])},
        {"b": floats(3 * N * H, seed=5)}, lambda sizes: {"m": flags(sizes["n"], sizes["t"])},
    ),
    "many_heads_past": Network(
        [node("MultiHeadAttention", "q k v - - - pk pv", "y nk nv", num_heads=N, unidirectional=1)], {**TOKENS, **PAST}, {},
        outputs=("y", "nk", "nv"),
    ),
    "turned": Network(
        [node("RotaryEmbedding", "x at cos sin")], {"x": (FLOAT, ["n", N, "s", H]), "at": (INT64, ["n", "s"])}, ANGLES,
        lambda sizes: {"at": np.arange(sizes["n"] * sizes["s"]).reshape(sizes["n"], sizes["s"]) * 7 % MOST},
    ),
    "turned_tokens": Network(
        [node("RotaryEmbedding", "x at cos sin", num_heads=N)], {"x": (FLOAT, ["n", "s", N * H])}, {**ANGLES, "at": np.array([3])}
    ),
    "groups_prompt": Network(
        [node("GroupQueryAttention", "q k v - - len total cos sin", "y nk nv", do_rotary=1, **GROUPS)], {**SHARED, **TOLD}, ANGLES,
        lambda sizes: lengths({**sizes, "p": 0}), ("y", "nk", "nv"),
    ),
    "groups_past": Network(
        [node("GroupQueryAttention", "q k v pk pv len total cos sin", "y nk nv", do_rotary=1, rotary_interleaved=1, **GROUPS)],
        {**SHARED, **CACHE, **TOLD}, ANGLES, lengths, ("y", "nk", "nv"),
    ),
    "groups_counted": Network(
        [*COUNTED, node("GroupQueryAttention", "q k v pk pv len total cos sin", "y nk nv", do_rotary=1, local_window_size=4, **GROUPS)],
        {**SHARED, **CACHE, "mask": (INT64, ["n", "all"])}, {**ANGLES, **NUMBERS},
        lambda sizes: {"mask": np.ones((sizes["n"], sizes["s"] + sizes["p"]), np.int64)}, ("y", "nk", "nv"),
    ),
    "onnx_tokens": Network(
        [node("Attention", "q k v m", domain="", q_num_heads=N, kv_num_heads=KV, is_causal=1)], {**SHARED, "m": (FLOAT, ["s", "all"])}, {},
        lambda sizes: {"m": floats(sizes["s"], sizes["s"])},
    ),
    "onnx_past": Network(
        [node("Attention", "q k v m pk pv", "y nk nv", domain="", softcap=2.0)],
        {**{name: (FLOAT, ["n", "h", "s", "d"]) for name in "qkv"}, **{name: (FLOAT, ["n", "h", "p", "d"]) for name in ("pk", "pv")},
         "m": (FLOAT, [1, 1, "s", "t"])}, {}, outputs=("y", "nk", "nv"),
    ),
}  # fmt: skip


@cache
def general(name: str) -> DynamicModel:
    compiled = stepwell.compile(NETWORKS[name].model(), specialise="never", threads=1, cache=False)
    assert isinstance(compiled, DynamicModel)
    return compiled


AT_NIGHT = ("projected", "many_heads_past", "groups_prompt")


@pytest.mark.parametrize("name", by_day(NETWORKS, lambda name: name not in AT_NIGHT))
def test_one_program_for_all_sizes(name: str) -> None:
    network = NETWORKS[name]
    source = network.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(source.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compiled, compared = general(name), 0
    for i, (sequences, tokens, past) in enumerate(SIZES):
        sizes = {"n": sequences, "s": tokens, "p": past, "t": tokens + past, "h": 3 + i % 2, "d": 5 + i}
        if name.startswith("groups") and past and tokens > 1:
            sizes["n"] = 1  # ONNX Runtime takes one sequence of several new tokens
        if "p" not in {dim for _, shape in network.inputs.values() for dim in shape} or past:  # and it wants a past of some tokens
            given = network.arrays(sizes, i)
            for got, want in zip(compiled(*given.values()), session.run(list(network.outputs), given), strict=True):
                assert_close(np.asarray(got), want, 256)
            compared += 1
    assert compared > 4


@pytest.mark.parametrize("sizes", by_day([[(2, 1, 9), (2, 4, 12)], [(3, 1, 5), (1, 3, 7)]], [[(2, 1, 9), (2, 4, 12)]]))
def test_lengths_of_their_own_in_a_cache_with_room(sizes: list[tuple[int, int, int]]) -> None:
    """Sequences go on where they end, in a cache as long as the longest; code for each of the sizes says what is right."""
    network = NETWORKS["groups_past"]
    source = network.model()
    compiled = general("groups_past")
    for sequences, tokens, room in sizes:
        given = network.arrays({"n": sequences, "s": tokens, "p": room}, room)
        ends = tokens + np.arange(sequences) % (room - tokens + 1)
        given |= {"len": (ends - 1).astype(np.int32), "total": np.array([ends.max()], np.int32)}
        own = stepwell.compile(source, shapes={name: array.shape for name, array in given.items()}, specialise="never", threads=1, cache=False)
        for got, want in zip(compiled(*given.values()), own(*given.values()), strict=True):
            assert got.shape == want.shape
            if want.ndim == 3:
                assert_close(np.asarray(got), np.asarray(want), 256)
            else:  # what lies behind the last token is not defined
                for i, end in enumerate(ends):
                    np.testing.assert_array_equal(got[i, :, :end], want[i, :, :end])
