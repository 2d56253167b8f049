"""Cases of recurrent layers."""

import math
from typing import Any

import numpy as np
from op_random import Case, Random

from op_cases.table import case
from stepwell.dialects.core.types import to_numpy
from stepwell.dialects.graph import op_class
from stepwell.dialects.graph.recurrence import ACTIVATIONS, DIRECTIONS

STEPS = 3  # at most: differences of rounding grow from step to step


def operands(r: Random, mnemonic: str) -> tuple[list[Any], dict[str, Any], tuple[int, int, int]]:
    """`projected`, `weights`, `lengths` and `initial_h`; the attributes that all layers have; directions, batch and hidden size."""
    cls: Any = op_class(mnemonic)
    dtype, direction = r.dtype(), r.choice(DIRECTIONS)
    batch, hidden, steps = r.size(r.least, 3), r.size(r.least, 5), min(r.size(r.least, STEPS), STEPS)
    directions = len(DIRECTIONS[direction])
    width = r.choice([hidden, 1, 4])
    panels = math.ceil(hidden / max(width, 1))
    weights = np.zeros((directions, cls.gates, panels, hidden, width), to_numpy(dtype))
    columns = np.moveaxis(weights, 2, 3)  # (directions, gates, hidden, panels, width)
    flat = r.within(dtype, (directions, cls.gates, hidden, hidden), -0.5, 0.5)
    for unit in range(hidden):
        columns[..., unit // width, unit % width] = flat[..., unit]
    projected = r.array(dtype, (steps, batch, directions * cls.gates * hidden), -2, 2)
    lengths = r.choice([None, r.within("i32", (batch,), 1, max(steps, 1))])
    initial = r.choice([None, r.array(dtype, (directions, batch, hidden), -1, 1)])
    count = directions * cls.functions
    attributes = {
        "direction": direction,
        "activations": tuple(r.choice(sorted(ACTIVATIONS)) for _ in range(count)),
        "alphas": tuple(r.real(0.3, 0.75, 1.0) for _ in range(count)),
        "betas": tuple(r.real(-0.25, 0.5) for _ in range(count)),
        "clip": r.choice([math.inf, r.real(0.5, 1.5)]),
    }
    return [projected, weights, lengths, initial], attributes, (directions, batch, hidden)


@case("lstm")
def lstm(r: Random) -> Case:
    first, attributes, (directions, batch, hidden) = operands(r, "lstm")
    kind = first[0].dtype
    cell = r.choice([None, r.within("f32", (directions, batch, hidden), -1, 1).astype(kind)])
    peepholes = r.choice([None, r.within("f32", (directions, 3, hidden), -0.5, 0.5).astype(kind)])
    return Case([*first, cell, peepholes], {**attributes, "input_forget": r.boolean()})


@case("gru")
def gru(r: Random) -> Case:
    first, attributes, (directions, _, hidden) = operands(r, "gru")
    bias = r.choice([None, r.within("f32", (directions, hidden), -1, 1).astype(first[0].dtype)])
    return Case([*first, bias], attributes)


@case("rnn")
def rnn(r: Random) -> Case:
    first, attributes, _ = operands(r, "rnn")
    return Case(first, attributes)


@case("quantized_lstm")
def quantized_lstm(r: Random) -> Case:
    """Weights as importers make them, or in panels with neighbours side by side, as for dot products."""
    projected, weights, lengths, initial = (made := operands(r, "quantized_lstm"))[0]
    directions, gates, panels, hidden, width = weights.shape
    depth = r.choice((1, 2, 4))
    kind = r.choice(("i8", "i16"))
    numbers = np.rint(weights.astype(np.float64) * r.choice((200, 254))).astype(to_numpy(kind))
    filled = np.pad(numbers, ((0, 0),) * 3 + ((0, -hidden % depth), (0, 0)))
    # (directions, gates, panels, groups, depth, width) -> (directions, gates, panels, groups, width, depth)
    grouped = np.swapaxes(filled.reshape(directions, gates, panels, -(-hidden // depth), depth, width), 4, 5)
    columns = numbers.astype(np.int32).sum(axis=3).reshape(directions, gates, panels * width)[..., :hidden]
    scales = r.within("f32", columns.shape, 0.001, 0.004)
    batch = projected.shape[1]
    cell = r.choice([None, r.within("f32", (directions, batch, hidden), -1, 1)])
    peepholes = r.choice([None, r.within("f32", (directions, 3, hidden), -0.5, 0.5)])
    return Case([projected, grouped, scales, columns.astype(np.int32), lengths, initial, cell, peepholes], {**made[1], "input_forget": r.boolean()})
