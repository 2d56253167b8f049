"""Contractions, normalisations, transforms and random values of any size: one program gives what ONNX's evaluator does, or our code for that size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import importing
import numpy as np
import onnxruntime
import pytest
from covering import by_day
from every import check_each
from importing import assert_close
from joined_models import joined, kind
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.dialects.graph import RandomBitsOp
from stepwell.driver.dynamic import DynamicModel

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
KINDS = {FLOAT: np.float32, DOUBLE: np.float64, INT64: np.int64, TensorProto.FLOAT16: np.float16}
Inputs = Mapping[str, Sequence[Any]]
Arrays = dict[str, np.ndarray]
# What the symbols of a model are, in the order in which they come.
SIZES = ((4, 3, 5, 2, 6), (1, 1, 1, 1, 1), (7, 0, 2, 9, 3), (1, 17, 9, 1, 33), (0, 3, 5, 2, 4), (3, 4, 0, 5, 1), (64, 8, 16, 8, 8), (4, 3, 5, 2, 6))


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(
    nodes: NodeProto | Sequence[NodeProto], inputs: Inputs, opset: int = 22, kind: int = FLOAT, out: int | None = None, **weights: Any
) -> ModelProto:
    nodes = [nodes] if isinstance(nodes, NodeProto) else list(nodes)
    graph = helper.make_graph(
        nodes, "all_sizes", [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", kind if out is None else out, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )  # fmt: skip
    domains = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in {n.domain for n in nodes if n.domain})]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(0.3, 1, shape).astype(np.float32)


def given(source: ModelProto, sizes: Sequence[int], seed: int) -> Arrays:
    """Random inputs, the symbols standing for `sizes` as they come."""
    dims = [dim for value in source.graph.input for dim in value.type.tensor_type.shape.dim]
    numbers = dict(zip(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param), sizes, strict=False))
    found = {}
    for i, value in enumerate(source.graph.input):
        kind = value.type.tensor_type
        shape = [numbers[dim.dim_param] if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
        values = floats(*shape, seed=seed + i) if kind.elem_type != INT64 else np.random.default_rng([seed, i, *shape]).integers(0, 5, shape)
        found[value.name] = np.asarray(values).astype(KINDS[kind.elem_type])
    return found


class General:
    """The program for all sizes of a model, which says whether it was the one that ran."""

    def __init__(self, source: ModelProto, **options: Any) -> None:
        self.levels: list[str] = []
        compiled = stepwell.compile(source, specialise="never", cache=False, on_level=lambda level, seconds: self.levels.append(level), **options)
        assert isinstance(compiled, DynamicModel)
        self.compiled = compiled

    def __call__(self, inputs: Arrays, *, anew: bool = False) -> np.ndarray:
        """The result; nothing may be compiled for it unless it may be made `anew`, for sizes that are not assumed."""
        return self.run(inputs, anew=anew)["y"]

    def run(self, inputs: Arrays, *, anew: bool = False) -> Arrays:
        """All results."""
        made = len(self.levels)
        got = self.compiled.run(inputs)
        assert anew or len(self.levels) == made, "something was compiled for new sizes"
        return got


def for_these_sizes(source: ModelProto, x: Arrays) -> np.ndarray:
    """What the graph means that is imported for the sizes of these inputs."""
    return importing.run(source, x, shapes={name: array.shape for name, array in x.items()})["y"]


@dataclass(frozen=True)
class Case:
    """A model and what it should give, rounding so many terms aside, for sizes in turn; those without elements may need code of their own."""

    source: ModelProto
    want: Callable[[Arrays], np.ndarray]
    terms: int
    sizes: Sequence[Sequence[int]] = SIZES
    empty_anew: bool = False


def check(cases: Mapping[str, Case]) -> None:
    """Compare programs for all sizes, each of several cases, with what they should give."""
    groups: dict[Any, list[str]] = {}
    for name, case in cases.items():
        groups.setdefault((kind(case.source), case.empty_anew), []).append(name)
    found: dict[str, list[tuple[Arrays, np.ndarray]]] = {name: [] for name in cases}
    for names in (group[start : start + 10] for group in groups.values() for start in range(0, len(group), 10)):
        sources = [cases[name].source for name in names]
        program = General(joined(sources) if len(names) > 1 else sources[0])
        prefixes = [f"c{i}_" for i in range(len(names))] if len(names) > 1 else [""]
        for turn in range(max(len(cases[name].sizes) for name in names)):
            sizes = [cases[name].sizes[turn % len(cases[name].sizes)] for name in names]
            inputs = [given(cases[name].source, numbers, turn) for name, numbers in zip(names, sizes, strict=True)]
            anew = cases[names[0]].empty_anew and any(0 in numbers for numbers in sizes)
            whole = {prefix + key: array for prefix, x in zip(prefixes, inputs, strict=True) for key, array in x.items()}
            results = program.run(whole, anew=anew)
            for name, prefix, x in zip(names, prefixes, inputs, strict=True):
                found[name].append((x, results[f"{prefix}y"]))

    def judge(name: str) -> None:
        for x, got in found[name]:
            assert_close(got, np.asarray(cases[name].want(x)), cases[name].terms)

    check_each(((name, name) for name in cases), judge)


EINSUMS: dict[str, list[list[Any]]] = {
    "bhqd,bhkd->bhqk": [["b", 3, "q", 8], ["b", 3, "k", 8]],
    "bhqk,bhkd->bqhd": [["b", 3, "q", "k"], ["b", 3, "k", 8]],
    "bqhd,bkhd->bhqk": [["b", "q", 3, 8], ["b", "k", 3, 8]],
    "bsd,dhe->bshe": [["b", "s", 6], [6, 3, 4]],
    "bshe,hed->bsd": [["b", "s", 3, 4], [3, 4, 6]],
    "nctkv,kvw->nctw": [["n", 4, "t", 3, 5], [3, 5, 5]],
    "ij,jk": [["n", "m"], ["m", "k"]],
    "i,i": [["n"], ["n"]],
    "i,j->ij": [["n"], ["m"]],
    "bi,bj->bij": [["b", "n"], ["b", "m"]],
    "ij,ij->": [["n", "m"], ["n", "m"]],
    "ij->ji": [["n", "m"]],
    "ij->i": [["n", "m"]],
    "ij->": [["n", "m"]],
    "ijk,il,jl->kl": [["n", "m", 3], ["n", "k"], ["m", "k"]],
    "bcij,bcjk->bcki": [["b", 2, "n", "n"], ["b", 2, "n", "m"]],
    "...ij,...jk->...ik": [["b", 1, "n", "m"], [1, "c", "m", "k"]],
    "...ij,jk->...ik": [["b", "c", "n", 4], [4, "k"]],
    "...i,...i->...": [["b", 1, "n"], ["c", "n"]],
    "b...i,i...->...b": [["b", "n", 3], [3, "n"]],
    "ij,kj->ik": [["n", 1], ["k", "m"]],
    "ij,kj,j->ik": [["n", "m"], ["k", 1], [1]],
    "ii->i": [["n", "n"]],
    "ii": [["n", "n"]],
    "bii->ib": [["b", "n", "n"]],
    "iijj->ji": [["n", "n", "m", "m"]],
    "iii->i": [["n", "n", "n"]],
    "ii,ij->j": [["n", "n"], ["n", "m"]],
}


AT_NIGHT = [
    "ij->", "ii", "ij,ij->", "bhqk,bhkd->bqhd", "bshe,hed->bsd", "bcij,bcjk->bcki", "...ij,jk->...ik", "b...i,i...->...b", "bi,bj->bij", "ij->i",
    "iii->i",
]  # fmt: skip
BY_DAY = [equation for equation in EINSUMS if equation not in AT_NIGHT]


@pytest.mark.filterwarnings("ignore:ONNX's inference of types fails")
@pytest.mark.parametrize("equations", by_day([BY_DAY, AT_NIGHT], [BY_DAY]), ids=["by_day", "at_night"])
def test_einsum(equations: list[str]) -> None:
    check({equation: of_equation(equation) for equation in equations})


def of_equation(equation: str) -> Case:
    inputs = {f"x{i}": shape for i, shape in enumerate(EINSUMS[equation])}
    source = model(node("Einsum", " ".join(inputs), equation=equation), inputs)
    repeats = any(len(set(part)) < len(part) for part in equation.replace("...", "").split("->")[0].split(","))

    def want(x: Arrays) -> np.ndarray:
        return np.asarray(np.einsum(equation, *(array.astype(np.float64) for array in x.values()))).astype(np.float32)

    return Case(source, want, 64, empty_anew=repeats)  # a diagonal without elements


def test_einsum_of_sizes_that_turn_out_to_differ() -> None:
    """They are taken to be equal; where one is 1 it is a factor of all, and others are an error."""
    source = model(node("Einsum", "x z", equation="ij,jk->ik"), {"x": ["n", "m"], "z": ["k", 3]})
    general = General(source)
    x, z = floats(4, 1), floats(5, 3)
    assert_close(general({"x": x, "z": z}, anew=True), np.einsum("ij,jk->ik", x, z), 8)
    with pytest.raises(stepwell.ModelError, match="label 'j' stands for 2 and for 5 elements"):
        general({"x": floats(4, 2), "z": z}, anew=True)
    assert_close(general({"x": floats(4, 5), "z": z}), floats(4, 5) @ z, 8)


def test_labels_of_equal_volume_are_still_told_apart() -> None:
    source = model(node("Einsum", "x z", equation="ij,ij->"), {"x": [2, 6], "z": [3, 4]})
    with pytest.raises(stepwell.ModelError, match="label 'i' stands for 2 and for 3"):
        stepwell.compile(source)


def normal_by_group(x: np.ndarray, groups: int, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The evaluator has no result for images without elements."""
    apart = x.astype(np.float64).reshape(x.shape[0], groups, x.shape[1] // groups * int(np.prod(x.shape[2:])))
    with np.errstate(all="ignore"):
        y = (apart - np.mean(apart, axis=2, keepdims=True)) / np.sqrt(np.var(apart, axis=2, keepdims=True) + 0.01)
    return (y.reshape(x.shape) * scale.reshape(1, -1, *[1] * (x.ndim - 2)) + bias.reshape(1, -1, *[1] * (x.ndim - 2))).astype(np.float32)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom")
def test_group_normalization() -> None:
    scale, bias = floats(2, 8)
    cases = {}
    for shape in (["n", 8, "h", "w"], ["n", 8, "h"], ["n", "c", "h", 3], ["n", 8]):
        source = model(node("GroupNormalization", "x s t", num_groups=4, epsilon=0.01), {"x": shape}, s=scale, t=bias)
        sizes = [(n, 8, h) for n, h, *_ in SIZES] if "c" in shape else SIZES
        cases[str(shape)] = Case(source, lambda x: normal_by_group(x["x"], 4, scale, bias), 512, sizes)
    check(cases)


CASES: dict[str, tuple[ModelProto, int]] = {  # the model, and the terms of its longest sums
    "cropped_and_padded": (model(node("CenterCropPad", "x shape", axes=[0, 2]), {"x": ["n", 3, "m"]}, shape=[5, 4]), 1),
    "cropped_to_another": (
        model([node("Shape", "z", "shape"), node("CenterCropPad", "x shape")], {"x": ["n", "m"], "z": ["k", "l"]}), 1
    ),
    "tiled": (model(node("Tile", "x r"), {"x": ["n", 3, "m"]}, r=[2, 1, 3]), 1),
    "tiled_rows": (model(node("Tile", "x r"), {"x": ["n", "m", 2]}, r=[1, 4, 1]), 1),
    "tiled_to_nothing": (model(node("Tile", "x r"), {"x": ["n", "m", 2]}, r=[2, 0, 1]), 1),
    "asked_by_a_condition": (
        model(
            [
                node("Shape", "x", "l", start=1, end=2), node("Mul", "l two", "e"), node("Mod", "e two", "rest"), node("Equal", "rest zero", "even"),
                node("Add", "e one", "more"), node("Equal", "more zero", "none"), node("Not", "none", "some"), node("And", "some even", "both"),
                node("Where", "both l one", "t"), node("Concat", "t three", "s", axis=0), node("Expand", "row s"),
            ],
            {"x": ["n", "m"]}, two=[2], one=[1], zero=[0], three=[3], row=floats(3),
        ),
        1,
    ),
    "no_triangle": (model(node("Trilu", "x"), {"x": ["n", 0, "m"]}), 1),
    "sums_of_nothing": (model(node("ReduceSum", "x a"), {"x": ["n", 0, "m"]}, a=[2]), 1),
    "sums_over_nothing": (model(node("ReduceSum", "x a"), {"x": ["n", 0, "m"]}, a=[1]), 1),
    "running_sum": (model(node("CumSum", "x a"), {"x": ["n", "m"]}, a=1), 64),
    "from_the_end": (model(node("CumSum", "x a", reverse=1), {"x": ["n", "m", 3]}, a=1), 64),
    "from_the_end_of_rows": (model(node("CumSum", "x a", reverse=1, exclusive=1), {"x": [2, "n", "m"]}, a=-1), 64),
    "backwards_in_integers": (model(node("CumSum", "x a", reverse=1, exclusive=1), {"x": ["m", "n"]}, kind=INT64, a=0), 1),
    "windows": (model(node("Col2Im", "x i b", strides=[1, 2], pads=[0, 1, 1, 0]), {"x": ["n", 12, 12]}, i=[4, 6], b=[2, 2]), 4),
    "windows_of_channels": (model(node("Col2Im", "x i b"), {"x": ["n", "c", "p"]}, i=[4, 3], b=[2, 1]), 4),
    "tokens": (
        model(
            node(
                "TfIdfVectorizer", "x", mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 3],
                ngram_indexes=[0, 1, 2, 3, 4], pool_int64s=[2, 3, 4, 1, 2, 0, 3], weights=[0.5, 1.0, 2.0, 3.0, 0.25],
            ),
            {"x": ["n", "m"]}, kind=INT64, out=FLOAT,
        ),
        1,
    ),
    "no_grams_to_count": (
        model(
            node(
                "TfIdfVectorizer", "x", mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 2], ngram_indexes=[0, 1],
                pool_int64s=[2, 3],
            ),
            {"x": ["n", "m"]}, kind=INT64, out=FLOAT,
        ),
        1,
    ),
}  # fmt: skip


def test_as_the_evaluator() -> None:
    check({name: as_the_evaluator(name) for name in CASES})


def as_the_evaluator(name: str) -> Case:
    source, terms = CASES[name]
    right = ReferenceEvaluator(source)
    sizes = SIZES if name != "windows_of_channels" else [(n, 2 * c, 9) for n, c, *_ in SIZES]
    fails_without_elements = name in ("tokens", "no_grams_to_count") or name.startswith("windows")

    def want(x: Arrays) -> np.ndarray:
        empty = any(array.size == 0 for array in x.values())
        return for_these_sizes(source, x) if empty and fails_without_elements else np.asarray(right.run(None, x)[0])

    return Case(source, want, terms, sizes)


MICROSOFT = {"domain": "com.microsoft"}
ROWS = {"g": floats(12, seed=1), "b": floats(12, seed=2), "c": floats(12, seed=3)}
TABLES = {"w": floats(5, 12), "p": floats(40, 12, seed=1), "s": floats(5, 12, seed=2), "g": floats(12, seed=3), "b": floats(12, seed=4)}
RUN_BY_ORT: dict[str, tuple[ModelProto, int]] = {
    "skip": (model(node("SkipLayerNormalization", "x z g b c", **MICROSOFT), {"x": ["n", "m", 12], "z": ["n", "m", 12]}, **ROWS), 12),
    "skip_of_other_names": (model(node("SkipLayerNormalization", "x z g b", **MICROSOFT), {"x": ["n", "m", "h"], "z": ["n", "l", 12]}, **ROWS), 12),
    "skip_of_a_batch": (model(node("SkipSimplifiedLayerNormalization", "x z g c", **MICROSOFT), {"x": ["n", "m", 12], "z": ["m", 12]}, **ROWS), 12),
    "embedding": (
        model(
            [
                node("Cast", "x", "i", to=TensorProto.INT32), node("Cast", "z", "j", to=TensorProto.INT32),
                node("EmbedLayerNormalization", "i j w p s g b", "y k", **MICROSOFT),
            ],
            {"x": ["n", "m"], "z": ["n", "m"]}, kind=INT64, out=FLOAT, **TABLES,
        ),
        12,
    ),
    "padded_by_sizes": (
        model(
            [
                node("Shape", "z", "k"), node("Shape", "x", "l", end=1), node("Concat", "l o k k o l", "both", axis=0), node("Pad", "x both"),
            ],
            {"x": ["n", "m", 2], "z": ["k"]}, o=np.array([0]),
        ),
        1,
    ),
    "padded_to_a_multiple": (
        model(
            [  # by what a size is short of a multiple of 4
                node("Shape", "x", "l", start=1, end=2), node("Add", "l three", "up"), node("Div", "up four", "parts"),
                node("Mul", "parts four", "whole"), node("Sub", "whole l", "more"), node("Concat", "o o o more", "pads", axis=0),
                node("Pad", "x pads v"),
            ],
            {"x": ["n", "m"]}, o=np.array([0]), three=np.array([3]), four=np.array([4]), v=np.float32(7),
        ),
        1,
    ),
    "running_product": (model(node("CumSum", "x a", reverse=1, exclusive=1), {"x": ["n", "m"]}, kind=DOUBLE, a=1), 64),
}  # fmt: skip


def test_as_onnx_runtime() -> None:
    check({name: as_onnx_runtime(name) for name in RUN_BY_ORT})


def as_onnx_runtime(name: str) -> Case:
    source, terms = RUN_BY_ORT[name]
    session = onnxruntime.InferenceSession(source.SerializeToString())
    sizes = [(n, m, 12, m) if name == "skip_of_other_names" else (n, m, k) for n, m, k, *_ in SIZES if n and m]
    return Case(source, lambda x: session.run(None, x)[0], terms, sizes)


SIGNALS: dict[str, tuple[ModelProto, bool]] = {  # the model, and whether it is for lengths of any size
    "batch": (model(node("DFT", "x"), {"x": ["n", 10, 2]}), False),
    "long": (model(node("DFT", "x"), {"x": ["n", 96, 1]}), False),
    "rows": (model(node("DFT", "x", axis=0), {"x": ["m", "n", 2]}, opset=17), True),
    "real": (model(node("DFT", "x", onesided=1), {"x": ["n", "m", 1]}), True),
    "back": (model(node("DFT", "x", inverse=1), {"x": ["n", "m", 2]}, kind=DOUBLE), True),
    "parts_of_any_number": (model(node("DFT", "x", inverse=1), {"x": ["m", "n", "two"]}), True),
    "frames": (model(node("STFT", "x hop window"), {"x": ["n", "m", 1]}, hop=3, window=floats(8)), True),
    "frames_of_a_signal": (model(node("STFT", "x hop none length", onesided=0), {"x": ["n", "m", 1]}, hop=2, length=5), True),
}  # fmt: skip


MANY, FEW = [name for name in SIGNALS if name not in ("long", "parts_of_any_number")], ["long", "parts_of_any_number"]


@pytest.mark.parametrize("names", by_day([MANY, FEW], [MANY]), ids=["by_day", "at_night"])
def test_transforms(names: list[str]) -> None:
    check({name: transform(name) for name in names})


def transform(name: str) -> Case:
    source, any_length = SIGNALS[name]
    source.graph.node[0].input[:] = [given if given != "none" else "" for given in source.graph.node[0].input]
    right = ReferenceEvaluator(source)
    least = 8 if "frames" in name else 1
    sizes = [(n, max(m, least) if any_length else m, 2) for n, m, *_ in [*SIZES, (2, 100), (3, 37)] if n]
    sizes = [(m, n, 2) if name in ("rows", "parts_of_any_number") else (n, m, 2) for n, m, _ in sizes]
    return Case(source, lambda x: right.run(None, x)[0], 128, sizes)


def test_half_of_a_spectrum() -> None:
    """What the evaluator does not take: an inverse transform of the half that numpy's gives."""
    general = General(model(node("DFT", "x length", inverse=1, onesided=1), {"x": ["n", "m", 2]}, opset=20, length=np.array(9)))
    free = General(model(node("DFT", "x", inverse=1, onesided=1), {"x": ["n", "m", 2]}, opset=20))
    for n, m in ((3, 5), (1, 2), (4, 33), (0, 7), (2, 9)):
        x = floats(n, m, 2)
        x[:, [0, -1], 1] = 0  # of real data these are real
        spectrum = x[..., 0] + 1j * x[..., 1]
        assert_close(free({"x": x})[..., 0], np.fft.irfft(spectrum, 2 * (m - 1), axis=1).astype(np.float32), 64)
        if m == 5:
            assert_close(general({"x": x})[..., 0], np.fft.irfft(spectrum, 9, axis=1).astype(np.float32), 64)


RANDOM: dict[str, ModelProto] = {
    "uniform": model(node("RandomUniformLike", "x", seed=3.0, low=-1.0, high=2.0), {"x": ["n", "m", 3]}),
    "uniform_by_name": model(node("RandomUniformLike", "x"), {"x": ["n", "m"]}),
    "normal": model(node("RandomNormalLike", "x", dtype=DOUBLE), {"x": ["n", 2, "m"]}, out=DOUBLE),
    "bernoulli": model([node("Sigmoid", "x", "p"), node("Bernoulli", "p", seed=1.0)], {"x": ["n", "m"]}),
    "multinomial": model(node("Multinomial", "x", sample_size=5, dtype=INT64), {"x": ["n", "m"]}, out=INT64),
    "dropout": model(node("Dropout", "x r t", seed=7), {"x": ["n", "m", 2]}, r=np.float32(0.3), t=np.array(True)),
}


def test_the_numbers_drawn_are_those_of_the_size() -> None:
    """The same as if it were known; and other ones for each element."""
    seen: dict[str, list[np.ndarray]] = {name: [] for name in RANDOM}

    def case(name: str) -> Case:
        def want(x: Arrays) -> np.ndarray:
            seen[name].append(for_these_sizes(RANDOM[name], x))
            return seen[name][-1]

        return Case(RANDOM[name], want, 4, [s for s in SIZES if s[1] or name != "multinomial"])

    by_name = [name for name, source in RANDOM.items() if not any(a.name == "seed" for node in source.graph.node for a in node.attribute)]
    check({name: case(name) for name in RANDOM if name not in by_name})
    for name in by_name:  # what is drawn depends on the names in the model
        check({name: case(name)})
    assert all(len(np.unique(numbers[-2])) > 1 for numbers in seen.values())


def test_the_numbers_drawn_are_those_of_the_generator() -> None:
    general = General(model(node("RandomUniformLike", "x", seed=3.0), {"x": ["n", 3, "m", "k"]}, kind=DOUBLE))
    for turn, (n, m, k, *_) in enumerate(SIZES):
        bits = RandomBitsOp.reference(seed=int(np.float64(3).view(np.int64)), shape=(n, 3, m, k))
        np.testing.assert_array_equal(general({"x": floats(n, 3, m, k, seed=turn).astype(np.float64)}), (bits >> np.uint64(11)) * 2.0**-53)
