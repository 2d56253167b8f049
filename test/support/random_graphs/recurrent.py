"""Recurrent layers: LSTM, GRU and RNN, with what goes in beside the data and every activation function."""

from typing import Any

from random_graphs.net import Net, Value
from random_graphs.operators import operator

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}  # of each direction
# How many numbers each activation function takes; those of which ONNX has no default come last.
NUMBERS = {
    "Tanh": 0, "Sigmoid": 0, "Relu": 0, "Softsign": 0, "Softplus": 0, "LeakyRelu": 1, "ThresholdedRelu": 1, "Elu": 1, "HardSigmoid": 2, "Affine": 2,
    "ScaledTanh": 2,
}  # fmt: skip
WITHOUT_DEFAULT = ("Affine", "ScaledTanh")


@operator(*GATES)
def layer(net: Net, op_type: str) -> None:
    r = net.r
    dtype = net.dtype(op_type)
    first = net.opset >= 14 and r.integer(0, 2) == 0  # the batch
    direction = r.choice([None, "forward", "reverse", "bidirectional", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    hidden = r.choice([1, 2, 3, 5, 8, 17])
    x = net.pick(dtype, lambda v: v.rank == 3 and 0 < v.array.size < 600 and v.shape[1 if first else 0] <= 8, lambda: r.integers(3, 1, 5))
    batch, steps = x.shape[:2] if first else x.shape[1::-1]
    columns = GATES[op_type] * hidden

    def weights(*shape: int, wanted: bool = True) -> Value | None:
        return net.fresh(dtype, shape, -0.7, 0.7, constant=bool(r.integer(0, 3)), tame=not net.special) if wanted else None

    def state(wanted: bool) -> Value | None:
        return net.fresh(dtype, (batch, directions, hidden) if first else (directions, batch, hidden), -1, 1) if wanted else None

    lengths = net.fresh("i32", (batch,), 0 if r.integer(0, 3) == 0 else 1, steps, tame=True) if r.integer(0, 2) == 0 else None
    operands = [
        x, weights(directions, columns, x.shape[2]), weights(directions, columns, hidden), weights(directions, 2 * columns, wanted=r.boolean()),
        lengths, state(r.boolean()),
    ]  # fmt: skip
    chosen = activations(net, FUNCTIONS[op_type] * directions) if r.integer(0, 2) == 0 else {}
    if op_type == "LSTM":
        operands += [state(r.boolean()), weights(directions, 3 * hidden, wanted=r.integer(0, 2) == 0)]
        chosen["input_forget"] = r.choice([None, None, 1])
    if op_type == "GRU" and net.opset >= 3:
        chosen["linear_before_reset"] = r.choice([None, 0, 1])
    if net.opset < 7:
        chosen["output_sequence"] = r.choice([None, 1])
    if net.opset >= 14:
        chosen["layout"] = 1 if first else r.choice([None, 0])
    outputs = 3 if op_type == "LSTM" else 2
    clip = r.choice([None, None, 0.75])
    net.node(op_type, *operands, outputs=r.integer(1, outputs), hidden_size=hidden, direction=direction, clip=clip, **chosen)


def activations(net: Net, count: int) -> dict[str, Any]:
    """That many functions, and numbers for as many of them as need some, or more."""
    names = [net.r.choice(list(NUMBERS)) for _ in range(count)]
    chosen: dict[str, Any] = {"activations": [net.r.choice([name, name, name.lower()]) for name in names]}
    for place, (attribute, low, high) in enumerate((("activation_alpha", 0.2, 1.2), ("activation_beta", 0.1, 0.9))):
        takers = [name for name in names if NUMBERS[name] > place]
        needed = max((i + 1 for i, name in enumerate(takers) if name in WITHOUT_DEFAULT), default=0)
        given = net.r.integer(needed, len(takers))
        if given:
            chosen[attribute] = [float(net.r.generator.uniform(low, high)) for _ in range(given)]
    return chosen
