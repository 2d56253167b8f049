"""A recurrent encoder and decoder with attention (Bahdanau et al., 2015; Luong et al., 2015) for sentences of any length in batches of any size."""

import onnx
from onnx import TensorProto

from networks.layers import Layers
from networks.recurrent import recurrent
from networks.transformer import embedding, linear

__all__ = ["translator"]


def translator(seed: int, *, width: int = 256, units: int = 512, vocabulary: int = 8000, name: str = "translator") -> onnx.ModelProto:
    """Tokens `source` [batch, source_length], each of so many `lengths` [batch], and `target` [batch, target_length] to `logits` of what comes next.

    A bidirectional GRU reads the source. An LSTM reads the target, and at each step looks at all that the GRU gave.
    """
    net = Layers(name, seed)
    source, target = (
        net.op("Transpose", [embedding(net, side, f"{side}.tokens", vocabulary, width)], f"{side}.steps", perm=[1, 0, 2])
        for side in ("source", "target")
    )
    memory = recurrent(net, "GRU", source, "encoder", (width, units), both=True, lengths="lengths")
    state = recurrent(net, "LSTM", target, "decoder", (width, units))
    keys = net.op("Transpose", [linear(net, memory, "keys", (2 * units, units))], "keys.transpose", perm=[1, 2, 0])
    values = net.op("Transpose", [memory], "values", perm=[1, 0, 2])
    queries = net.op("Transpose", [state], "queries", perm=[1, 0, 2])
    looks = net.op("Softmax", [net.op("MatMul", [queries, keys], "scores")], "looks", axis=-1)
    seen = net.op("Concat", [net.op("MatMul", [looks, values], "context"), queries], "seen", axis=-1)
    joined = net.op("Tanh", [linear(net, seen, "join", (3 * units, units))], "joined")
    net.named(linear(net, joined, "head", (units, vocabulary)), "logits")
    sides = {side: (TensorProto.INT64, ["batch", f"{side}_length"]) for side in ("source", "target")}
    inputs = {"source": sides["source"], "lengths": (TensorProto.INT32, ["batch"]), "target": sides["target"]}
    return net.finished(inputs, {"logits": (TensorProto.FLOAT, ["batch", "target_length", vocabulary])})
