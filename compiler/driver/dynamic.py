"""A model that is compiled when it is run: for each combination of input shapes, and of those input values that compilation needs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from stepwell import checks
from stepwell.dialects.support.errors import InputError, StepwellError, UnsupportedError
from stepwell.dialects.support.limits import KNOWN_ELEMENTS
from stepwell.dialects.support.processes import Lock
from stepwell.driver.bound import BoundModel
from stepwell.driver.combinations import AFTER, Combinations, Entry, InBackground, Key, Shapes
from stepwell.driver.otherwise import Otherwise
from stepwell.driver.pairs import ContradictionError, Sizes, check_pairs, check_sizes, sizes_without_code, usual_pairs
from stepwell.runtime.about import About
from stepwell.runtime.fitting import by_name, count_error, fitted, names_error
from stepwell.runtime.general import GeneralProgram
from stepwell.runtime.model import Arrays, CompiledModel, Memory
from stepwell.runtime.weights import WeightPool
from stepwell.signature import Shape, TensorInfo, shape_of

Made: TypeAlias = "CompiledModel | DynamicModel"


class DynamicModel(Combinations["CompiledModel | DynamicModel"]):
    """A model with the interface of `CompiledModel`, over one such model for each combination of input shapes.

    `compile_shapes` compiles for the shapes of all inputs and the arrays of those in `values`, both by name. The compiled model takes the other
    inputs, and may be a DynamicModel again. At most `capacity` models are kept, and at most `capacity_bytes` of weights beyond those of the
    shape-polymorphic program; the least recently used model is dropped first. Safe to call from several threads; a call waits for a combination that
    another thread is compiling.

    With a shape-polymorphic `program`, new combinations are run by it if it supports them; with `background`, a specialised version is compiled for a
    combination on its third call, and replaces the program when it is ready.

    `timings`, `kernels`, `memory` and `ir` are those of the most recently used model; before there is one, those of the program, except for `memory`
    and `threads`.
    """

    def __init__(
        self, *, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], compile_shapes: Callable[[Shapes, Arrays], Made], capacity: int = 8,
        values: Mapping[str, str] | None = None, by_shape: bool = True, program: GeneralProgram | None = None,
        background: InBackground[Made] | None = None, why_not_general: str = "", distinct_names: Otherwise | None = None,
        compile_bound: Callable[[Mapping[str, str]], GeneralProgram | None] | None = None, capacity_bytes: int | None = None,
        pool: WeightPool | None = None,
    ) -> None:  # fmt: skip
        """`values` gives, for each input whose values code is specialised for, the reason (by default those of the `program`). Unless `by_shape`,
        shapes of other inputs do not matter.

        Without a `program`, `why_not_general` may give the reason. With one, `compile_bound` makes the program for `bind`. `distinct_names` is the
        model for sizes that contradict the names of dimensions. `pool` has the weights of all programs; `capacity_bytes` defaults to the size of
        those of `program`, at least `LEAST_BYTES`, and is unbounded without such a program.
        """
        if values is None:
            values = {} if program is None else program.valued
        super().__init__(
            inputs, values=values, by_shape=by_shape, capacity=capacity, capacity_bytes=capacity_bytes,
            weights=None if program is None else program.weights, background=background,
        )  # fmt: skip
        self.outputs = tuple(outputs)
        self.why_not_general = why_not_general
        self.sizes: Sizes = partial(sizes_without_code, self.inputs) if program is None else program.sizes
        """Computes sizes of inputs and outputs from values of symbols."""
        self._compile = compile_shapes
        self._program = program
        self._distinct_names = distinct_names
        self._compile_bound = compile_bound
        self._binding = Lock()
        self._bound: dict[tuple[tuple[str, str], ...], GeneralProgram | None] = {}
        self._pool = WeightPool() if pool is None else pool
        self._has_forms = any(info.form for info in self.inputs)
        self._plain = len(self._keyed) == len(self.inputs) and not self._valued and not self._has_forms
        self._dtypes = [info.dtype for info in self.inputs]

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs in the model's order; compiles if these shapes are new. Raises InputError if an array does not fit."""
        if len(arrays) != len(self.inputs):
            raise count_error(self.inputs, arrays)
        shapes = self._plain_shapes(arrays)
        if shapes is not None:
            return self._entry_for((shapes, ()), shapes, {}).model(*arrays)
        fitting = [fitted(info, array) for info, array in zip(self.inputs, arrays, strict=True)]
        entry = self._entry(fitting)
        return entry.model(*entry.arrays(fitting))

    def run(self, inputs: Mapping[str, np.ndarray], *, out: Mapping[str, np.ndarray] | None = None) -> Arrays:
        """Run on inputs by name; compiles if these shapes are new. Like `CompiledModel.run`."""
        given = by_name(inputs, [info.name for info in self.inputs])
        fitting = [fitted(info, given[info.name]) for info in self.inputs]
        entry = self._entry(fitting)
        return entry.model.run(dict(zip((info.name for info in entry.model.inputs), entry.arrays(fitting), strict=True)), out=out)

    def specialise(self, shapes: Shapes, values: Mapping[str, np.ndarray] | None = None) -> Made:
        """The model for these input shapes and values by name, compiled if necessary.

        Inputs without dynamic dimensions may be omitted from `shapes`, and so may inputs with values; `values` are required for inputs whose values
        code is specialised for. With a shape-polymorphic program and specialise="auto", this is a specialised version.
        """
        checks.shapes("shapes", shapes)
        if values is not None:
            checks.arrays("values", values)
        names = [info.name for info in self.inputs]
        for given, known in ((shapes, names), (values or {}, list(self.values))):
            if set(given) - set(known):
                raise names_error({**dict.fromkeys(known), **given}, known, "input")
        arrays = {info.name: fitted(info, values[info.name]) for info in self.inputs if values is not None and info.name in values}
        found: list[Shape] = []
        for info in self.inputs:
            if info.name in self.values and info.name not in arrays:
                raise InputError(f"input '{info.name}': expected values, got none: {self.values[info.name]}")
            if info.form:
                if info.name not in shapes:
                    raise InputError(f"input '{info.name}': expected the shapes of {info}, got none")
                found.append(self._keyed_by(info, shapes[info.name]))
                continue
            sizes = shapes.get(info.name)
            shape = tuple(sizes) if sizes is not None else arrays[info.name].shape if info.name in arrays else info.shape
            if info.name in arrays and shape != arrays[info.name].shape:
                raise InputError(f"input '{info.name}': expected values of the shape given, {shape}, got {arrays[info.name].shape}")
            if (self.by_shape or sizes is not None) and not all(isinstance(size, int) for size in shape):
                raise InputError(f"input '{info.name}': expected a shape for {info}, got none")
            found.append(shape)
        return self._made(found, arrays, own=self._background is not None).model

    def bind(self, pairs: Mapping[str, str] | None = None) -> BoundModel:
        """This model with a state: the output of each of `pairs` becomes the paired input of the next call.

        `pairs` maps names of inputs to those of outputs; by default, inputs and outputs with the usual names of caches are paired (`usual_pairs`).
        Compiles, unless that was done before: if an output is its input with something appended, only the new part is written, into the same memory
        (docs/sizes.md). Each call of `bind` creates a new state. Raises InputError for pairs that do not fit.
        """
        if pairs is not None:
            checks.bound_names("bind", pairs)
        chosen = check_pairs(usual_pairs(self.inputs, self.outputs) if pairs is None else pairs, self.inputs, self.outputs)
        if chosen.keys() & self.values.keys():
            name = next(name for name in chosen if name in self.values)
            raise InputError(f"bind: expected an input of which no values have to be known, got '{name}': {self.values[name]}")
        key = tuple(chosen.items())
        with self._binding:
            if key not in self._bound:
                self._bound[key] = self._compile_bound(chosen) if self.general and self._compile_bound is not None else None
        return BoundModel(self, chosen, self._bound[key])

    @property
    def general(self) -> bool:
        """Whether there is a shape-polymorphic program; if not, `why_not_general` gives the reason, if one was requested."""
        return self._program is not None

    @property
    def threads(self) -> int:
        return self._latest().threads

    @property
    def memory(self) -> Memory:
        return self._latest().memory

    @property
    def weights_bytes(self) -> int:
        """The bytes of memory for the weights of all its programs; shared weights count once."""
        return self._pool.held_bytes

    @property
    def _described(self) -> "Made | About":
        return self._program.about if self._program is not None and self._last is None else self._latest()

    def _latest(self) -> Made:
        with self._lock:
            if self._last is None:
                open_ones = [f"'{info.name}' {info}" for info in self.inputs if info.form or info.name in self.values or not info.is_static]
                reasons = [("free dimensions", True), ("values that code is made for", self.values), ("no fixed number", self._has_forms)]
                what = ", or ".join(text for text, holds in reasons if holds)
                lacking = "nothing is compiled yet" if self._program is None else "not known before a run"
                raise InputError(f"{lacking}, as the inputs have {what} ({', '.join(open_ones)}): run the model or give shapes")
            return self._last.model

    def _plain_shapes(self, arrays: Sequence[Any]) -> tuple[Shape, ...] | None:
        """The shapes of arrays, if these have exactly the inputs' types and only shapes matter for code; else None.

        Most calls are like this, and a small model takes a few microseconds, so nothing else is computed for such arrays.
        """
        if not self._plain:
            return None
        shapes = []
        for array, dtype in zip(arrays, self._dtypes, strict=True):
            if type(array) is not np.ndarray or array.dtype is not dtype:
                return None
            shapes.append(array.shape)
        return tuple(shapes)

    def _entry(self, arrays: Sequence[np.ndarray]) -> Entry[Made]:
        """The entry that runs these arrays."""
        shapes = [self._keyed_by(info, shape_of(array)) for info, array in zip(self.inputs, arrays, strict=True)]
        values = {self.inputs[i].name: arrays[i] for i in self._valued}
        return self._entry_for(self._key(shapes, values), shapes, values)

    def _entry_for(self, key: Key, shapes: Sequence[Shape], values: Arrays) -> Entry[Made]:
        """The entry that runs a combination: the previous one, if it exists."""
        with self._lock:
            kept = self._models if key in self._models else self._general
            entry: Entry[Made] | None = kept.get(key)
            if entry is not None:
                kept.move_to_end(key)
                self._last = entry
                entry.calls += 1
                due = kept is self._general and entry.calls >= AFTER << self._dropped.get(key, 0) and self._is_open(key)
        if entry is None:
            return self._made(shapes, values)
        if due:
            self._request(key, shapes, values)
        return entry

    def _keyed_by(self, info: TensorInfo, shape: Shape) -> Shape:
        """The part of an input's shape that code depends on: for sequences and optionals the number and ranks of their tensors, except by shape."""
        if not info.form or shape is None:
            return shape
        parts = tuple(tuple(part) if isinstance(part, (tuple, list)) else part for part in shape)
        return parts if self.by_shape else tuple((None,) * len(part) if isinstance(part, tuple) else None for part in parts)

    def _made(self, shapes: Sequence[Shape], values: Arrays, *, own: bool = False) -> Entry[Made]:
        """The model for a combination, compiled if it does not exist; `own` demands a specialised version."""
        key = self._key(shapes, values)
        try:
            self.check(shapes)
        except ContradictionError as error:
            return self._with_distinct_names(error, key, shapes, values, own=own)
        for name, array in values.items():
            if array.size > KNOWN_ELEMENTS:
                most = f"its values must be known, of which at most {KNOWN_ELEMENTS} may be"
                raise UnsupportedError(f"input '{name}': {most}, got {array.size}: {self.values[name]}")
        named = self._named(shapes)
        found = None if self._program is None or own else self._program.model(named, values)
        if found is not None:
            entry = self._entry_of(found)
            with self._lock:
                self._last = self._general[key] = entry
        else:
            entry = self._last = self._specialised(key, lambda: self._compile(named, values))
        return entry

    def _with_distinct_names(self, error: ContradictionError, key: Key, shapes: Sequence[Shape], values: Arrays, *, own: bool) -> Entry[Made]:
        """The entry for sizes that contradict the names of dimensions, as from `_made`: a model in which each dimension has its own symbol.

        If that model runs them, the names are wrong, which is reported as a ModelWarning once; otherwise the sizes are wrong, which is the error.
        """
        if self._distinct_names is None:
            raise error
        distinct = self._distinct_names.compiled(error)
        if not isinstance(distinct, DynamicModel) or distinct.values.keys() != self.values.keys():
            raise error
        try:
            entry = distinct._made(shapes, values, own=own)
        except StepwellError as problem:
            raise error from problem
        self._distinct_names.warn(error)
        if not own:
            self._keep(key, self._entry_of(distinct, is_shared=True))
        self._last = entry
        return entry

    def check(self, shapes: Sequence[Shape]) -> None:
        """Raise InputError if shapes, of all inputs, do not fit the model's, or give one symbol two sizes."""
        check_sizes(self.inputs, shapes, self.sizes)
