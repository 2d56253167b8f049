"""LSTM, GRU and RNN."""

from collections.abc import Iterator
from typing import Any

from benchmark.operators.case import Case, Tensor, constant, given, op, weight

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def cases() -> Iterator[Case]:
    """One direction and both, one sequence and eight, long and short."""
    yield layer("LSTM", "RNN-T prediction network, one sequence", 64, 1, 256, 256)
    yield layer("LSTM", "CRNN text recogniser", 26, 1, 512, 256, both=True)
    yield layer("LSTM", "DeepSpeech 2 layer", 100, 8, 160, 320, both=True)
    yield layer("LSTM", "sequence tagger, padded batch", 50, 8, 128, 128, both=True, padded=True)
    yield layer("LSTM", "GNMT encoder layer", 32, 8, 512, 512)
    yield layer("GRU", "Tacotron CBHG", 100, 1, 128, 128, both=True, linear_before_reset=1)
    yield layer("GRU", "RNNoise-like denoiser", 100, 1, 96, 384, linear_before_reset=1)
    yield layer("GRU", "Keras default, batch of 8", 40, 8, 256, 256)
    yield layer("GRU", "sentence encoder, padded batch", 30, 8, 300, 512, both=True, padded=True, linear_before_reset=1)
    yield layer("RNN", "character model", 128, 1, 128, 256)
    yield layer("RNN", "Elman tagger, batch of 8", 50, 8, 300, 256, both=True)


def layer(
    operator: str, origin: str, steps: int, batch: int, features: int, hidden: int, both: bool = False, padded: bool = False, **more: Any
) -> Case:
    """A layer of a recurrent network: its whole sequence and its last state."""
    directions, gates = 2 if both else 1, GATES[operator]
    inputs: list[Tensor | None] = [
        given(steps, batch, features),
        weight(directions, gates * hidden, features),
        weight(directions, gates * hidden, hidden),
    ]
    inputs.append(weight(directions, 2 * gates * hidden))
    if padded:
        inputs.append(constant([steps - i * steps // (2 * batch) for i in range(batch)], "int32"))
    direction = "bidirectional" if both else "forward"
    note = direction + (" lengths" if padded else "")
    states = 3 if operator == "LSTM" else 2
    return op(operator, origin, *inputs, outputs=states, note=note, opset=14, hidden_size=hidden, direction=direction, **more)
