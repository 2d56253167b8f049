"""Broadcasts of data-dependent sizes: if they are not assumed to be equal, each may turn out to be 1, and is stretched to the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.sizes import Size, always
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.contraction import MatmulOp
from stepwell.dialects.graph.traits import Elementwise
from stepwell.frontends.blocks.slicing import counting, size_scalar
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder


class StretchingBuilder(ImportBuilder):
    """An `ImportBuilder` that makes operands of element-wise ops and products equally large along dimensions with data-dependent sizes.

    An op's own broadcast assumes two such sizes to be equal. Here the operand whose size is 1 at run time is read repeatedly, by a gather.
    """

    def create(self, cls: type[GraphOp], operands: Any, attributes: dict[str, Any], result_types: list[TensorType] | None = None) -> GraphOp:
        """Like `ImportBuilder.create`, with operands stretched if necessary."""
        if all(isinstance(v, Value) for v in operands) and len(operands) > 1 and (cls is MatmulOp or cls.has_trait(Elementwise)):
            operands = self._stretched(operands, 2 if cls is MatmulOp else 0)
        return super().create(cls, operands, attributes, result_types)

    def _stretched(self, operands: Sequence[Value], last: int) -> list[Value]:
        """The operands, equally large along dimensions with data-dependent sizes; the `last` ones are left unchanged."""
        made = list(operands)
        for place in range(last + 1, max(type_of(v).rank for v in made) + 1):
            found = {i: dims_of(v)[-place] for i, v in enumerate(made) if type_of(v).rank >= place and dims_of(v)[-place] != 1}
            sizes = list(dict.fromkeys(found.values()))
            if self.symbols.are_of_inputs(sizes) or all(always(size, "==", sizes[0]) for size in sizes[1:]):
                continue
            target = self._joined(sizes)
            for i, size in found.items():
                if not always(size, "==", target) and not (isinstance(target, int) and self.symbols.are_of_inputs([size])):
                    made[i] = self._repeated(made[i], type_of(made[i]).rank - place, size, target)
        return made

    def _joined(self, sizes: Sequence[int | Size]) -> int | Size:
        """The common size of sizes that are equal or 1; the run ends with an error if they are not."""
        numbers = [size for size in sizes if isinstance(size, int)]
        if numbers:
            for size in sizes:
                if not self.symbols.are_of_inputs([size]):
                    self.bind_sizes(self._or_else(size, self._vector(numbers[0])), sizes=(numbers[0],))
            return numbers[0]
        joined = sizes[0]
        for size in sizes[1:]:
            both, name = self._or_else(joined, self._vector(size)), self.value_name
            joined = self.symbols.fresh(name)
            self.bind_sizes(self.concat([both, self._or_else(size, both)], axis=0), sizes=(joined, joined))
        return joined

    def _vector(self, size: int | Size) -> Value:
        return self.with_shape(size_scalar(self, size, like=self.literal(np.array(0, np.int64))), (1,))

    def _or_else(self, size: int | Size, other: Value) -> Value:
        """A size, or `other` where it is 1, as a vector of one number."""
        own = self._vector(size)
        return self.select(self.equal(own, self.scalar(1, like=own)), other, own)

    def _repeated(self, x: Value, axis: int, size: int | Size, target: int | Size) -> Value:
        """`x` with `target` elements along an axis where it has that many, or 1."""
        own = self._vector(size)
        step = self.select(self.equal(own, self.scalar(1, like=own)), self.scalar(0, like=own), self.scalar(1, like=own))
        return self.gather(x, self.mul(counting(self, target), step), axis=axis)
