"""Recurrent layers: operands of LSTM, GRU and RNN as the graph ops take them."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.sizes import Dim, holds, same_sizes, size_text
from stepwell.dialects.core.types import FLOATS, type_of
from stepwell.dialects.graph.recurrence import DIRECTIONS
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.slicing import slice_axis
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


def bound(clip: float | None) -> float:
    """The bound of the inputs of the gates' functions: none without `clip`. An LSTM's cell state is not clipped."""
    if clip is None:
        return float("inf")
    if clip < 0:
        raise ModelError(f"clip must not be negative, got {clip}")
    return clip


class Layer:
    """A recurrent layer being imported: its sizes, checked, and its operands in the form of the dialect's ops."""

    def __init__(self, b: ModelBuilder, x: Value, w: Value, r: Value, gates: int, direction: str, layout: int, hidden_size: int | None) -> None:
        if direction not in DIRECTIONS:
            raise ModelError(f"direction must be one of {', '.join(DIRECTIONS)}; got {direction!r}")
        if layout not in (0, 1):
            raise ModelError(f"layout must be 0 or 1, got {layout}")
        if type_of(x).dtype not in FLOATS:
            raise ModelError(f"its input X must be a float, got {type_of(x)}")
        for name, value in (("X", x), ("W", w), ("R", r)):
            if type_of(value).rank != 3:
                raise ModelError(f"its input {name} must have rank 3, got {type_of(value)}")
        inputs, hidden = dims_of(w)[2], dims_of(r)[2]
        if hidden_size is not None and not holds(hidden_size, "==", hidden):
            raise ModelError(f"hidden_size is {hidden_size}, but R ({type_of(r)}) is for {hidden}")
        self.b, self.x, self.w, self.r, self.gates, self.inputs, self.hidden = b, x, w, r, gates, inputs, hidden
        self.directions, self.batch_first = len(DIRECTIONS[direction]), bool(layout)
        self.batch = type_of(x).shape[0 if self.batch_first else 1]
        self.expect("W", w, (self.directions, gates * hidden, type_of(x).shape[2]))
        self.expect("R", r, (self.directions, gates * hidden, hidden))

    def expect(self, name: str, value: Value, shape: Sequence[Dim]) -> None:
        """Raise ModelError if an input has another shape."""
        own = type_of(value).shape
        if not same_sizes(own, shape):
            wanted = "x".join(map(size_text, shape))
            raise ModelError(f"its input {name} must have the shape {wanted}, got {type_of(value)}")

    def biases(self, bias: Value | None) -> tuple[Value, Value]:
        """The biases of the inputs' products and of the state's, (directions, gates * hidden) each; zeros if there are none."""
        columns = self.gates * self.hidden
        if bias is None:
            zero = self.b.expand(self.b.scalar(0, like=self.x), shape=(self.directions, columns))
            return zero, zero
        self.expect("B", bias, (self.directions, 2 * columns))
        return slice_axis(self.b, bias, 1, 0, columns), slice_axis(self.b, bias, 1, columns, columns)

    def both_biases(self, bias: Value | None) -> Value | None:
        """The sum of the biases; None if there are none."""
        return None if bias is None else self.b.add(*self.biases(bias))

    def projected(self, bias: Value | None) -> Value:
        """The products of all steps' inputs with the weights of all directions and gates, as one matrix product, and a bias for each column."""
        b, columns = self.b, self.directions * self.gates * self.hidden
        x = b.transposed(self.x, (1, 0, 2)) if self.batch_first else self.x
        steps, batch, _ = dims_of(x)
        rows = b.with_shape(x, (steps * batch, self.inputs))
        product = self.multiplied(rows, b.transposed(b.with_shape(self.w, (columns, self.inputs)), (1, 0)))
        total = product if bias is None else b.add(product, b.with_shape(bias, (columns,)))
        return b.with_shape(total, (steps, batch, columns))

    def multiplied(self, rows: Value, weights: Value) -> Value:
        """The product of the inputs of all steps and sequences with the weights (inputs, directions * gates * hidden)."""
        return self.b.matmul(rows, weights)

    def weights(self) -> Value:
        """The recurrent weights with a matrix for each direction and gate, which is one panel."""
        b, sizes = self.b, (self.directions, self.gates, self.hidden, self.hidden)
        turned = b.transposed(b.with_shape(self.r, sizes), (0, 1, 3, 2))
        return b.with_shape(turned, (self.directions, self.gates, 1, self.hidden, self.hidden))

    def peepholes(self, given: Value | None) -> Value | None:
        """The weights of the peepholes as (directions, 3, hidden); None if there are none."""
        if given is None:
            return None
        self.expect("P", given, (self.directions, 3 * self.hidden))
        return self.b.with_shape(given, (self.directions, 3, self.hidden))

    def lengths(self, sequence_lens: Value | None) -> Value | None:
        """The number of steps of each sequence; None if all have the full number."""
        if sequence_lens is not None:
            self.expect("sequence_lens", sequence_lens, (self.batch,))
        return sequence_lens

    def state(self, name: str, initial: Value | None) -> Value | None:
        """A state before the first step as (directions, batch, hidden)."""
        if initial is None:
            return None
        sizes = (self.directions, self.batch, self.hidden)
        self.expect(name, initial, (sizes[1], sizes[0], sizes[2]) if self.batch_first else sizes)
        return self.b.transposed(initial, (1, 0, 2)) if self.batch_first else initial

    def results(self, made: Any) -> tuple[Value, ...]:
        """The results of all steps, and the last states, in the node's layout."""
        if not self.batch_first:
            return tuple(made)
        y, *states = made
        return self.b.transposed(y, (2, 0, 1, 3)), *(self.b.transposed(state, (1, 0, 2)) for state in states)
