"""Recurrent layers for networks of any length and batch."""

from networks.layers import Layers
from networks.transformer import constant

__all__ = ["recurrent"]

GATES = {"LSTM": 4, "GRU": 3}


def recurrent(net: Layers, kind: str, x: str, name: str, sizes: tuple[int, int], *, both: bool = False, lengths: str = "", state: str = "") -> str:
    """What an LSTM or GRU gives at each step of x [steps, batch, inputs], as [steps, batch, directions * units]; `sizes` are inputs and units.

    `both` directions, or forward only. `lengths` names the steps of each sequence, `state` the first state, if they are not all, and not zero.
    """
    inputs, units = sizes
    directions, rows = 1 + both, GATES[kind] * units
    weights = [
        net.parameter(f"{name}.w", net.weights.kernel(f"{name}.w", (directions, rows, inputs), fan_in=inputs, gain=1.0)),
        net.parameter(f"{name}.r", net.weights.kernel(f"{name}.r", (directions, rows, units), fan_in=units, gain=1.0)),
        net.parameter(f"{name}.b", net.weights.bias(f"{name}.b", (directions, 2 * rows))),
    ]
    direction = "bidirectional" if both else "forward"
    made = net.op(kind, [x, *weights, lengths, state], name, hidden_size=units, direction=direction)
    turned = net.op("Transpose", [made], f"{name}.transpose", perm=[0, 2, 1, 3])
    return net.op("Reshape", [turned, constant(net, f"steps_of_{directions * units}", [0, 0, directions * units])], f"{name}.joined")
