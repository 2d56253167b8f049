"""The tables of a model for the run time in C (`runtime.c`): its arrays, sizes, checks, segments and state."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files as package_files

import stepwell.bundling
from stepwell.backends.artifact import Artifact
from stepwell.bundling.c_text import Arrays, formula, identifier, string
from stepwell.bundling.interface import MAX_RANK
from stepwell.bundling.manifest import ONNX_NUMBERS
from stepwell.dialects.core.index_checks import IndexCheck, widths
from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.families import family_of
from stepwell.runtime.late_sizes import LateSegment
from stepwell.signature import BOXES, TensorInfo

_C_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", **{name: f"{name}_t" for name in ("int8", "int16", "int32", "int64")},
    **{name: f"{name}_t" for name in ("uint8", "uint16", "uint32", "uint64")}, "float16": "uint16_t", "bfloat16": "uint16_t",
}  # fmt: skip
_UNKNOWN = -1


@dataclass(frozen=True)
class State:
    """An output of the code that is an input of the next run."""

    input: int
    output: int
    axis: int = -1
    """The axis along which it grows in place; -1 if it is passed on whole."""
    length: str = ""
    """The symbol of what it holds along the axis."""
    capacity: str = ""
    """The symbol of its room."""
    after: str = ""
    """The size along the axis after a run, as text."""


def check_artifact(artifact: Artifact) -> None:
    """Raise UnsupportedError for a model that the interface in C cannot express, naming the input, output or node."""
    if artifact.border is not None:
        raise UnsupportedError("a bundle of a model with strings or maps, which runs partly in Python, is not supported")
    for group in artifact.groups:
        if group.held == BOXES:
            what = "a sequence whose length only a run can tell, which a bundle does not support"
            raise UnsupportedError(f"output '{group.info.name}' {group.info} is {what}; supported: tensors, and sequences of known length")
    for kind, infos in (("input", artifact.inputs), ("output", artifact.outputs)):
        for info in infos:
            if len(info.shape) > MAX_RANK or info.is_unranked or info.dtype.name not in ONNX_NUMBERS:
                supported = f"tensors of up to {MAX_RANK} dimensions with ONNX's types of numbers"
                raise UnsupportedError(f"{kind} '{info.name}' {info} is not supported in a bundle; supported: {supported}")


def raw_signature(name: str, artifact: Artifact) -> str | None:
    """The prototype of the raw function, without its semicolon; None for a model that needs memory or sizes during a run."""
    if artifact.general is not None or artifact.late is not None:
        return None
    taken = ["weights", "workspace", name]
    arguments = ["const void *weights", "void *workspace"]
    for infos, const in ((artifact.inputs, "const "), (artifact.outputs, "")):
        for info in infos:
            taken.append(identifier(info.name, taken))
            arguments.append(f"{const}{_C_TYPES.get(info.dtype.name, 'uint8_t')} *{taken[-1]}")
    return f"int {name}({', '.join(arguments)})"


class Tables:
    """Writes the file."""

    def __init__(self, name: str, artifact: Artifact, target: Target, digest: bytes, *, embedded: bool, states: Sequence[State] = ()) -> None:
        self.name, self.artifact, self.target, self.digest, self.embedded, self.states = name, artifact, target, digest, embedded, states
        general, late = artifact.general, artifact.late
        self.places = dict(general.places) if general is not None else {}
        if late is not None:
            self.places = {**late.places, **self.places}
        self.symbols = list(general.symbols) if general is not None else []
        self.arrays = Arrays()

    def text(self) -> str:
        """The content of the file."""
        arguments, results = self._arguments(), self._results()
        fields = {
            "name": string(self.name), **self._signature(), "arguments": len(self.artifact.inputs), "results": len(self.artifact.outputs),
            "argument": arguments, "result": results, **self._weights(), **self._sizes(), **self._segments(), **self._checks(), **self._states(),
            **self._machine(), "main": f"{self.name}_code_main", "sizes": f"{self.name}_code_sizes" if self.artifact.general else "NULL",
        }  # fmt: skip
        functions = [f"HIDDEN int64_t {self.name}_code_main(void **arguments);"]
        if self.artifact.general:
            functions.append(f"HIDDEN int64_t {self.name}_code_sizes(int64_t *table);")
        if self.embedded:
            functions.append(f"extern HIDDEN const unsigned char {self.name}_embedded_weights[];")
        described = ",\n".join(f"    .{name} = {value}" for name, value in fields.items())
        raw = self._raw()
        return "\n".join([
            package_files(stepwell.bundling).joinpath("tables.h").read_text(encoding="utf-8"), *functions, *self.arrays.lines,
            f"static const struct description the_model = {{\n{described},\n}};", *raw, "",
        ])  # fmt: skip

    def _info(self, info: TensorInfo, name: str, shape: Sequence[int]) -> str:
        """The initialiser of a `stepwell_info`."""
        sizes = self.arrays.add("int64_t", f"{name}_shape", [str(size if size >= 0 else _UNKNOWN) for size in shape])
        texts = [None if isinstance(size, int) or size is None else size for size in info.shape]
        symbols = self.arrays.add("char *const", f"{name}_symbols", map(string, texts)) if any(texts) else "NULL"
        return f"{{{string(info.name)}, {ONNX_NUMBERS[info.dtype.name]}, {len(info.shape)}, {sizes}, {symbols}}}"

    def _codes(self, shape: Sequence[int | str | None]) -> list[int]:
        """The sizes as `size_code`s."""
        return [size if isinstance(size, int) else -2 - self.places[size] if size in self.places else _UNKNOWN for size in shape]

    def _argument(self, info: TensorInfo, name: str, codes: Sequence[int], elements: Sequence[str | None] = ()) -> str:
        valued = [self.symbols.index(symbol) if symbol is not None else -1 for symbol in elements] if any(elements) else []
        parts = [
            self._info(info, name, codes), self.arrays.add("size_code", f"{name}_sizes", map(str, codes)), str(info.dtype.itemsize), str(len(valued)),
            self.arrays.add("int32_t", f"{name}_elements", map(str, valued)),
        ]  # fmt: skip
        return f"{{{', '.join(parts)}}}"

    def _arguments(self) -> str:
        general = self.artifact.general
        elements = dict(enumerate(general.elements)) if general is not None else {}
        made = [self._argument(info, f"in{i}", self._codes(info.shape), elements.get(i, ())) for i, info in enumerate(self.artifact.inputs)]
        return self.arrays.add("struct argument", "arguments", made)

    def _results(self) -> str:
        codes = {i: self._codes(info.shape) for i, info in enumerate(self.artifact.outputs)}
        for segment in self.artifact.late.segments if self.artifact.late is not None else ():
            for (_, output), shape in zip(segment.outputs, segment.shapes, strict=True):
                codes[output] = [_UNKNOWN if size is None else size for size in shape]
        made = [self._argument(info, f"out{i}", codes[i]) for i, info in enumerate(self.artifact.outputs)]
        return self.arrays.add("struct argument", "results", made)

    @property
    def inputs(self) -> list[int]:
        """The arguments of the code that are inputs of the model, without its state and the lengths of caches."""
        hidden = {state.input for state in self.states} | ({len(self.artifact.inputs) - 1} if self._has_lengths else set())
        return [i for i in range(len(self.artifact.inputs)) if i not in hidden]

    @property
    def outputs(self) -> list[int]:
        """The results of the code that are outputs of the model."""
        hidden = {state.output for state in self.states}
        return [i for i in range(len(self.artifact.outputs)) if i not in hidden]

    @property
    def sides(self) -> dict[str, list[TensorInfo]]:
        """The inputs and outputs of the model."""
        return {"input": [self.artifact.inputs[i] for i in self.inputs], "output": [self.artifact.outputs[i] for i in self.outputs]}

    def _signature(self) -> dict[str, object]:
        """The inputs and outputs of the model for the run time."""
        fields: dict[str, object] = {}
        for (kind, infos), numbers in zip(self.sides.items(), (self.inputs, self.outputs), strict=True):
            made = [self._info(info, f"{kind}{i}", self._codes(info.shape)) for i, info in zip(numbers, infos, strict=True)]
            fields |= {f"{kind}s": len(numbers), kind: self.arrays.add("stepwell_info", f"the_{kind}s", made)}
            if self.states:
                fields[f"of_{kind}"] = self.arrays.add("int32_t", f"of_{kind}", map(str, numbers))
        return fields

    def _weights(self) -> dict[str, object]:
        weights, places = self.artifact.weights, self.artifact.places
        digest = ", ".join(map(str, self.digest))
        return {
            "weights_bytes": f"UINT64_C({weights.nbytes})", "digest": f"{{{digest}}}",
            "embedded": f"{self.name}_embedded_weights" if self.embedded else "NULL", "places": len(places),
            "offsets": self.arrays.add("int64_t", "offsets", [f"INT64_C({offset})" for offset, _ in places]),
        }  # fmt: skip

    def _sizes(self) -> dict[str, object]:
        general, late = self.artifact.general, self.artifact.late
        entries = max(0 if general is None else general.entries, 0 if late is None else late.entries)
        limits = (1 << 62, 1 << 62, 1 << 62)
        if late is not None:
            limits = late.most_bytes, limits[1], late.most_rounds
        if general is not None:
            limits = general.most_bytes, general.most_value_bytes, limits[2]
        most_bytes, most_value_bytes, most_rounds = (f"INT64_C({min(limit, (1 << 63) - 1)})" for limit in limits)
        workspace = self.artifact.workspace_bytes if general is None else 0
        return {
            "workspace_bytes": f"INT64_C({workspace})", "symbols": len(self.symbols), "entries": entries,
            "workspace": -1 if general is None else general.workspace, "late": 0 if late is None else late.entries,
            "symbol_names": self.arrays.add("char *const", "symbol_names", map(string, self.symbols)),
            "assumptions": self.arrays.add("char *const", "assumptions", map(string, [] if general is None else general.assumptions)),
            "most_bytes": most_bytes, "most_value_bytes": most_value_bytes, "most_rounds": most_rounds,
        }  # fmt: skip

    def _segments(self) -> dict[str, object]:
        late = self.artifact.late
        if late is None:
            return {}
        made = [self._segment(f"segment{i}", segment) for i, segment in enumerate(late.segments)]
        return {"segments": len(made), "segment": self.arrays.add("struct segment", "segments", made)}

    def _segment(self, name: str, segment: LateSegment) -> str:
        def pairs(what: str, items: Sequence[tuple[int, int]]) -> str:
            return self.arrays.add("int32_t", f"{name}_{what}", [f"{{{a}, {b}}}" for a, b in items], "[2]")

        numbers = [segment.start, len(segment.sizes), segment.slots, len(segment.outputs), len(segment.boxes), len(segment.grows)]
        parts = [
            string(segment.nodes), *map(str, numbers), self.arrays.add("char *const", f"{name}_sizes", map(string, segment.sizes)),
            pairs("output", segment.outputs), pairs("box", segment.boxes), self.arrays.add("int32_t", f"{name}_grow", map(str, segment.grows)),
            self.arrays.add("char *const", f"{name}_assumptions", map(string, segment.assumptions)),
        ]  # fmt: skip
        return f"{{{', '.join(parts)}}}"

    def _checks(self) -> dict[str, object]:
        checks = self.artifact.checks
        made = [self._check(f"check{i}", check) for i, check in enumerate(checks)]
        hidden = widths(checks)
        return {
            "hidden": len(hidden), "widths": self.arrays.add("int32_t", "widths", map(str, hidden)), "checks": len(made),
            "check": self.arrays.add("struct check", "checks", made),
        }  # fmt: skip

    def _check(self, name: str, check: IndexCheck) -> str:
        codes = self._codes([size if isinstance(size, int) else str(size) for size in check.sizes])
        [several] = self._codes([check.count if isinstance(check.count, int) else str(check.count)])
        flags = [str(flag).lower() for flag in (check.exact, check.from_start, check.compared)]
        parts = [
            string(check.node), string(check.op), string(check.reason or None), str(check.result), str(len(check.sizes)), *flags, str(several),
            self.arrays.add("int64_t", f"{name}_dims", map(str, check.dims)), self.arrays.add("size_code", f"{name}_sizes", map(str, codes)),
            self.arrays.add("char *const", f"{name}_texts", [string(str(size)) for size in check.sizes]),
        ]  # fmt: skip
        return f"{{{', '.join(parts)}}}"

    @property
    def _has_lengths(self) -> bool:
        return any(state.axis >= 0 for state in self.states)

    def _states(self) -> dict[str, object]:
        if not self.states:
            return {}
        names = {symbol: f"symbols[{i}]" for i, symbol in enumerate(self.symbols)}
        made = []
        for i, state in enumerate(self.states):
            function = "NULL"
            if state.axis >= 0:
                function = f"after{i}"
                after: int | Size = parse(state.after)
                self.arrays.lines.append(f"static int64_t {function}(const int64_t *symbols) {{ return {formula(after, names)}; }}")
            numbers = [self.symbols.index(name) if name else -1 for name in (state.length, state.capacity)]
            made.append(f"{{{', '.join(map(str, (state.input, state.output, state.axis, *numbers, function)))}}}")
        return {
            "pairs": len(made), "pair": self.arrays.add("struct pair", "pairs", made), "lengths": int(self._has_lengths),
        }  # fmt: skip

    def _machine(self) -> dict[str, object]:
        bits = family_of(self.target.triple).feature_bits()
        features = self.target.features
        made = [f"{{{string(name)}, {', '.join(map(str, bits[name]))}}}" for name in sorted(features) if name in bits]
        feature = self.arrays.add("struct feature", "features", made)
        return {"features": len(made), "feature": feature, "tiles": int("amx-tile" in features)}

    def _raw(self) -> list[str]:
        """The raw function."""
        signature = raw_signature(self.name, self.artifact)
        if signature is None:
            return []
        names = [part.rpartition("*")[2] for part in signature[signature.index("(") + 1 : -1].split(", ")]
        hidden = widths(self.artifact.checks)
        lines = [f"    uint64_t reach{i}[{width}];" for i, width in enumerate(hidden)]
        weights = f"(void *)(uintptr_t){names[0]}"
        count = len(self.artifact.places)
        if count:
            lines += [
                f"    int64_t located[{count}];",
                f"    for (int i = 0; i < {count}; ++i) located[i] = (int64_t)((uintptr_t)weights + (uintptr_t)offsets[i] - (uintptr_t)located);",
            ]
            weights = "located"
        values = [f"(void *)(uintptr_t){name}" for name in names[2:]] + [f"reach{i}" for i in range(len(hidden))] + [weights, names[1]]
        body = [*lines, f"    void *arguments[] = {{{', '.join(values)}}};", f"    return (int)({self.name}_code_main(arguments) & 0xFF);"]
        return ["#define STEPWELL_RAW \\", *[f"{line} \\" for line in [f"{signature} {{", *body]], "}"]
