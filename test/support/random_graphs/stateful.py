"""What carries a state from step to step through sequences: convolutions and attention that do, and caches."""

import numpy as np
from random_graphs.movement import any_value
from random_graphs.net import Net, Value
from random_graphs.operators import operator


@operator("CausalConvWithState")
def causal_conv(net: Net, op_type: str) -> None:
    r = net.r
    x = net.pick(net.dtype(op_type), lambda v: v.rank == 3 and 0 < v.array.size < 1000, lambda: r.integers(3, 1, 5))
    reach = r.integer(1, 5)
    w = net.fresh(x.dtype, (x.shape[1], 1, reach), -1, 1)
    bias = net.fresh(x.dtype, (x.shape[1],)) if r.boolean() else None
    state = net.fresh(x.dtype, (*x.shape[:2], reach - 1)) if r.boolean() else None
    net.node(op_type, x, w, bias, state, outputs=r.integer(1, 2), activation=r.choice([None, "none", "silu", "swish"]))


@operator("LinearAttention")
def linear_attention(net: Net, op_type: str) -> None:
    r = net.r
    dtype = net.dtype(op_type)
    batch, steps, heads, size, out = r.integers(5, 1, 4)
    each = r.integer(1, 3)
    rule = r.choice([None, "linear", "gated", "delta", "gated_delta"])
    query, key, value = (net.fresh(dtype, (batch, steps, n), -1, 1) for n in (heads * each * size, heads * size, heads * out))
    state = net.fresh(r.choice([dtype, r.choice(net.dtypes(op_type, 3))]), (batch, heads, size, out), -1, 1) if r.boolean() else None
    decay = net.fresh(dtype, (batch, steps, r.choice([heads, heads * size])), -2, 0) if rule not in ("linear", "delta") else None
    beta = net.fresh(dtype, (batch, steps, r.choice([heads, 1])), 0, 1) if rule not in ("linear", "gated") else None
    net.node(
        op_type, query, key, value, state, decay, beta, outputs=r.integer(1, 2), q_num_heads=heads * each, kv_num_heads=heads, update_rule=rule,
        scale=r.choice([None, 0.0, 0.7]), chunk_size=r.choice([None, 2]),
    )  # fmt: skip


@operator("TensorScatter")
def tensor_scatter(net: Net, op_type: str) -> None:
    r = net.r
    cache = any_value(net, op_type, 2)
    axis = r.integer(1, cache.rank - 1)
    size = cache.shape[axis]
    count = r.integer(0, size)
    update = net.fresh(cache.dtype, (*cache.shape[:axis], count, *cache.shape[axis + 1 :]))
    mode = r.choice([None, "linear", "circular"])
    starts = None
    if r.integer(0, 2):
        net.named += 1
        places = r.generator.integers(0, (size if mode == "circular" and size else size - count + 1), (cache.shape[0],)).astype(np.int64)
        starts = net.keep(Value(f"x{net.named}", places, r.boolean()))
    named = net.counted(axis, cache.rank)
    net.node(op_type, cache, update, starts, mode=mode, axis=None if named == -2 and r.boolean() else named)
