"""Symbols for the dynamic dimensions of a model's inputs and of its nodes' results."""

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import Dim, Size, is_name, symbol
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.origins import Origins
from stepwell.dialects.support.errors import InferenceError

ELEMENTS = 8
"""The largest input, in elements, whose elements get symbols."""
LONGEST = 1 << 63  # no dimension is that long
_OTHER = re.compile(r"\W+")


class Symbols:
    """The assignment of symbols to dynamic dimensions.

    Models name dimensions by arbitrary text: equal texts get one symbol, whose name is the text as a word; texts that differ in any letter, however
    alike they look, get separate symbols. Exporters also write expressions of other dimensions (`past + 1`); they are understood if all names in them
    are dimensions of inputs by themselves.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """`texts` are all names of dimensions of inputs."""
        self._given: dict[str, int | Size] = {}
        """The sizes of the texts seen so far."""
        self._taken: set[str] = set()
        self._of_inputs: set[str] = set()
        """The symbols that sizes of inputs give their numbers."""
        self._of_elements: dict[str, ir.Value] = {}
        """The inputs whose elements give other symbols their numbers."""
        self._plain = {text for text in texts if _word(text) == text}

    def of_input(self, name: str, tensor: TensorType, texts: Sequence[str]) -> TensorType:
        """An input's type with a symbol for each dynamic dimension.

        A symbol gets the dimension's name in the model, if `texts` has one, else one made of the input's name and the axis.
        """
        dims = zip(tensor.shape, texts, strict=True)
        sizes: list[Dim] = [
            size if size is not None else self._of_text(text) if text else self.fresh(f"{name}_{axis}")
            for axis, (size, text) in enumerate(dims)
        ]
        self._of_inputs.update(symbol for size in sizes if isinstance(size, Size) for symbol in size.symbols)
        return tensor.with_shape(sizes)

    @property
    def names(self) -> frozenset[str]:
        """The names of all symbols so far."""
        return frozenset(self._taken)

    def origins(self, name: str) -> Origins | None:
        """The inputs that determine a symbol's value; None if it does not come from inputs."""
        if name in self._of_elements:
            return Origins(frozenset([self._of_elements[name]]))
        return Origins(sizes=True) if name in self._of_inputs else None

    def are_of_inputs(self, shape: Iterable[Dim]) -> bool:
        """Whether sizes are numbers, or follow from inputs."""
        return all(isinstance(size, int) or (size is not None and all(map(self.origins, size.symbols))) for size in shape)

    def are_of_shapes(self, sizes: Iterable[Dim]) -> bool:
        """Whether sizes are numbers, or follow only from the shapes of inputs."""
        return all(isinstance(size, int) or (size is not None and self._of_inputs.issuperset(size.symbols)) for size in sizes)

    def all_origins(self) -> Origins:
        """The inputs that determine the values of all their symbols."""
        return Origins(frozenset(self._of_elements.values()), sizes=bool(self._of_inputs))

    def of_elements(self, name: str, argument: ir.Value, tensor: TensorType) -> list[Size] | None:
        """New symbols for the elements of a small vector, or scalar, of integers; None for any other input."""
        if tensor.dtype not in ("i32", "i64") or tensor.rank > 1 or not tensor.is_static or not 1 <= tensor.elements <= ELEMENTS:
            return None
        made = [self.fresh(name if tensor.elements == 1 else f"{name}_{i}") for i in range(tensor.elements)]
        self._of_elements.update(dict.fromkeys(map(str, made), argument))
        return made

    def is_of_elements(self, size: Dim) -> bool:
        """Whether a size depends on elements of inputs."""
        return isinstance(size, Size) and not self._of_elements.keys().isdisjoint(size.symbols)

    def fresh(self, name: str) -> Size:
        """A new symbol with a name like `name`."""
        word = _word(name)
        free, number = word, 1
        while free in self._taken or free in self._plain:
            number += 1
            free = f"{word}_{number}"
        self._taken.add(free)
        return symbol(free)

    def completed(self, name: str, tensor: TensorType) -> TensorType:
        """A type with a new symbol for each unknown dimension; `name` is that of the value."""
        if None not in tensor.shape:
            return tensor
        return tensor.with_shape([self.fresh(f"{name}_{axis}") if size is None else size for axis, size in enumerate(tensor.shape)])

    def _of_text(self, text: str) -> int | Size:
        if text not in self._given:
            found = self._expression(text)
            self._given[text] = found if found is not None else symbol(text) if text in self._plain else self.fresh(text)
            self._taken.add(str(self._given[text]))
        return self._given[text]

    def _expression(self, text: str) -> Size | None:
        if normalize("NFKC", text) != text:  # Python would read other names
            return None
        try:
            found = parse(text)
        except InferenceError:
            return None
        if not isinstance(found, Size) or found.is_symbol or not self._plain.issuperset(found.symbols):
            return None
        try:
            return found if abs(found.value(dict.fromkeys(found.symbols, 1))) < LONGEST else None
        except ZeroDivisionError:
            return found


def _word(text: str) -> str:
    """A text as a word: runs of other characters than letters and digits become one underscore."""
    word = _OTHER.sub("_", normalize("NFKC", text)).strip("_") or "size"
    return word if is_name(word) else f"_{word}"
