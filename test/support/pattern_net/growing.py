"""Random graphs around a pattern's root, of the ops that it names: operands and attributes are drawn from the definition of each op."""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from op_cases import case_of, legal_dtypes
from op_random import Case, type_of_array
from op_sweep import Row, Sweep
from pattern_net.graphs import Argument, Constant, Entry, Graph, Node, Ref
from pattern_net.mentions import Mentions, mentions

from stepwell.dialects.core.types import TensorType, from_numpy, is_float, is_integer, to_numpy
from stepwell.dialects.graph import op_class
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.callbacks import inferred_types
from stepwell.dialects.graph.traits import Elementwise
from stepwell.dialects.support.errors import StepwellError
from stepwell.passes.framework.rewriting import Pattern

SIZES = (2, 3, 1, 4)
SPECIAL = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.25, 4.0)
FITTING = 24  # draws of an op's case, before the op is given up
TYPES = ("f32", "f32", "f32", "f16", "bf16", "f64", "i32", "i64", "i8", "ui8", "i1")


class Small(Sweep):
    """Draws small sizes: those of a row first, then any."""

    def size(self, least: int = 0, most: int = 5) -> int:
        wanted = self._left.pop(0) if self._left else int(self.generator.choice(SIZES))
        return max(wanted, least)


class Growing:
    """A graph that grows."""

    def __init__(self, names: Mentions, generator: np.random.Generator) -> None:
        self.names = names
        self.generator = generator
        self.entries: list[Entry] = []
        self.used: set[Ref] = set()
        self.dtype = str(generator.choice(TYPES))
        self.aim: TensorType | None = None
        """The type that the first op is to have, which an operand of the last one has."""

    def chance(self, part: float) -> bool:
        """True so often."""
        return bool(self.generator.random() < part)

    def values(self, kind: TensorType, drawn: np.ndarray) -> np.ndarray:
        """The array of a constant: as the op's definition draws it, one special number, powers of two, one for each channel, or few numbers."""
        dtype = to_numpy(kind.dtype)
        style = int(self.generator.integers(0, 5))
        if style == 0 or kind.dtype == "i1" or not (is_float(kind.dtype) or is_integer(kind.dtype)):
            return drawn
        numbers = np.array([*SPECIAL, *self.names.numbers])
        if not is_float(kind.dtype):
            limits = np.iinfo(dtype)
            numbers = np.array([n for n in numbers if n == int(n) and limits.min <= n <= limits.max])
        if style == 1:
            return np.full(kind.static_shape, self.generator.choice(numbers)).astype(dtype)
        if style == 2:
            powers = self.generator.integers(-3, 4, kind.static_shape) if is_float(kind.dtype) else self.generator.integers(0, 4, kind.static_shape)
            return np.asarray(2.0**powers).astype(dtype)
        return np.asarray(self.generator.choice(numbers, kind.static_shape)).astype(dtype)

    def leaf(self, array: np.ndarray, known: float) -> Ref:
        """A constant, one there was before of that type, or an argument."""
        kind = type_of_array(array)
        if self.chance(known):
            alike = [Ref(n) for n, e in enumerate(self.entries) if isinstance(e, Constant) and e.types[0] == kind]
            if alike and self.chance(0.5):
                return alike[int(self.generator.integers(len(alike)))]
            self.entries.append(Constant(self.values(kind, array), stored=self.chance(0.3)))
        else:
            self.entries.append(Argument(kind))
        return Ref(len(self.entries) - 1)

    def results(self) -> list[Ref]:
        """What ops have made, the newest first."""
        return [Ref(n, i) for n, e in reversed(list(enumerate(self.entries))) if isinstance(e, Node) for i in range(len(e.types))]

    def type(self, ref: Ref) -> TensorType:
        """The type of a value."""
        return self.entries[ref.entry].types[ref.result]

    def add(self, mnemonic: str, given: Case | None = None, *, last: bool = False) -> bool:
        """Put an op on what is there, or on new leaves; whether operands that fit were found. `given` is a case of it that is
        drawn already; the `last` op always takes what is there."""
        cls, legal = op_class(mnemonic), legal_dtypes(mnemonic)
        if not legal:
            return False
        made = self.results()
        for _ in range(FITTING):
            source = made[min(int(self.generator.geometric(0.7)) - 1, len(made) - 1)] if made and (last or self.chance(0.7)) else None
            aim = self.type(made[0]) if made and self.type(made[0]).is_static else self.aim  # beside what is there, for an op that takes both
            like = aim if source is None else self.type(source)
            wanted = self.dtype if like is None else like.dtype
            dtype = wanted if wanted in legal else str(self.generator.choice(legal))
            rank, sizes = (int(self.generator.integers(1, 5)), ()) if like is None else (like.rank, like.static_shape)
            case = given or self.case(mnemonic, dtype, rank, sizes)
            if case is None:
                continue
            elementwise = cls.has_trait(Elementwise)
            groups, plugged = self.plugged(case, made, source, elementwise=elementwise)
            if source is None and aim is not None and elementwise:
                groups = self.aimed(case, aim)
            if source is not None and not plugged:
                continue
            types = map_groups(lambda v: self.type(v) if isinstance(v, Ref) else type_of_array(v), groups)
            try:
                results = tuple(inferred_types(cls, types, case.attributes)) if cls.infer is not None else None
            except StepwellError:
                continue
            if results is None or any(not t.is_static or t.elements > 600 for t in results):
                continue
            known = float(self.generator.choice([0.9, 0.9, 0.3]))
            only_known = not plugged
            operands = []
            for group in groups:
                items = [v if isinstance(v, Ref) else self.leaf(v, 0.0 if only_known and v is self.first(groups) else known) for v in
                         (group if isinstance(group, list) else [] if group is None else [group])]  # fmt: skip
                operands.append(items if isinstance(group, list) else items[0] if items else None)
            self.used.update(ref for group in operands for ref in (group if isinstance(group, list) else [group]) if ref is not None)
            self.entries.append(Node(mnemonic, operands, case.attributes, results))
            return True
        return False

    @staticmethod
    def first(groups: Sequence[Any]) -> Any:
        """The first operand."""
        group = next((g for g in groups if g is not None), None)
        return group[0] if isinstance(group, list) else group

    def case(self, mnemonic: str, dtype: str, rank: int, sizes: Sequence[int]) -> Case | None:
        """A case of an op by its definition, on data of about that shape."""
        row = Row(int(self.generator.integers(2**32)), dtype, rank, tuple(sizes), False)
        try:
            made = case_of(mnemonic, Small(row))
        except (LookupError, ValueError, IndexError):
            return None
        lists = [name for name, value in made.attributes.items() if isinstance(value, tuple) and value and all(type(n) is int for n in value)]
        if lists and self.chance(0.3):  # no padding, steps of 1, one element: what identities are about
            name, plain = str(self.generator.choice(lists)), int(self.generator.integers(2))
            made.attributes[name] = (plain,) * len(made.attributes[name])
        return made

    def plugged(self, case: Case, made: Sequence[Ref], source: Ref | None, *, elementwise: bool) -> tuple[list[Any], bool]:
        """The case's operands, some of which are values that are there."""
        flat = [a for g in case.operands if g is not None for a in (g if isinstance(g, list) else [g])]
        places = [n for n, a in enumerate(flat) if source is not None and from_numpy(a.dtype) == self.type(source).dtype]
        places = [n for n in places if source is not None and type_of_array(flat[n]) == self.type(source)] or places
        chosen: dict[int, Any] = {}
        if places and source is not None:
            first = places[0] if self.chance(0.6) else int(self.generator.choice(places))
            chosen[first] = source
            for place in places:
                if place not in chosen:
                    alike = [ref for ref in made if self.type(ref).dtype == from_numpy(flat[place].dtype) and ref not in self.used]
                    if alike and self.chance(0.6):
                        chosen[place] = alike[int(self.generator.integers(len(alike)))]
                    elif elementwise:
                        chosen[place] = self.broadcast(flat[place], self.type(source))
        numbered = iter(range(len(flat)))
        return map_groups(lambda a: chosen.get(next(numbered), a), case.operands), any(isinstance(v, Ref) for v in chosen.values())

    def aimed(self, case: Case, kind: TensorType) -> list[Any]:
        """The operands of an element-wise op such that its result has that shape."""
        numbered = iter(range(99))
        return map_groups(lambda a: self.broadcast(a, kind) if next(numbered) else np.resize(a if a.size else np.ones(1, a.dtype), kind.static_shape)
                          .astype(a.dtype), case.operands)  # fmt: skip

    def broadcast(self, array: np.ndarray, kind: TensorType) -> np.ndarray:
        """An array like one, of a shape that broadcasts to a type's: one number, one for each channel, or all."""
        shape = kind.static_shape
        style = int(self.generator.integers(0, 6))
        if style == 0:
            wanted: tuple[int, ...] = (1,) * int(self.generator.integers(0, kind.rank + 1))
        elif style < 4 and kind.rank:
            axis = min(1, kind.rank - 1) if style == 1 else int(self.generator.integers(kind.rank))
            wanted = tuple(d if i == axis else 1 for i, d in enumerate(shape))[int(self.generator.integers(0, axis + 1)) :]
        else:
            wanted = shape
        return np.resize(array if array.size else np.ones(1, array.dtype), wanted).astype(array.dtype)

    def graph(self) -> Graph:
        """What has grown: all that nothing uses is returned, and sometimes something else."""
        results = [ref for ref in self.results() if ref not in self.used]
        inner = [ref for ref in self.results() if ref in self.used]
        if inner and self.chance(0.15):
            results.append(inner[int(self.generator.integers(len(inner)))])
        return Graph(tuple(self.entries), tuple(results))


def grown(p: Pattern, seed: int) -> Graph | None:
    """A random graph that ends in a root of the pattern; None where its ops did not fit each other."""
    names, generator = mentions(p), np.random.default_rng([seed, zlib.crc32(p.name.encode())])
    if not names.roots:
        return None
    growing = Growing(names, generator)
    root = str(generator.choice(names.roots))
    chain = list(names.chain[:-1] if names.chain and names.chain[-1] in names.roots else names.chain)
    others = [*names.chain, *names.others] or [root]
    if growing.chance(0.5) and chain:
        plan = chain if growing.chance(0.6) else chain[int(generator.integers(len(chain))) :]
    else:
        plan = [str(generator.choice(others)) for _ in range(int(generator.integers(0, 4)))]
    if growing.chance(0.2):
        plan.insert(int(generator.integers(len(plan) + 1)), str(generator.choice(others)))
    last = aimed_at(growing, root) if plan and growing.chance(0.5) else None
    for name in plan:
        growing.add(name)
    done = growing.add(root, last, last=True) or (last is not None and growing.add(root, last=True))
    return growing.graph() if done else None


def aimed_at(growing: Growing, root: str) -> Case | None:
    """A case of the root, to one of whose operands the graph is to lead; None if it takes none."""
    legal = legal_dtypes(root)
    dtype = growing.dtype if growing.dtype in legal else str(growing.generator.choice(legal))
    case = growing.case(root, dtype, int(growing.generator.integers(1, 5)), ())
    kinds = [type_of_array(a) for g in (case.operands if case is not None else []) if g is not None for a in (g if isinstance(g, list) else [g])]
    if case is None or not kinds or kinds[0].elements == 0 or kinds[0].elements > 600:
        return None
    growing.aim = kinds[0] if growing.chance(0.8) else kinds[int(growing.generator.integers(len(kinds)))]
    return case
