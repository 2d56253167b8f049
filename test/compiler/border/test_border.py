"""Models whose strings and maps are at their border: what runs in Python, what is compiled, and the model that does both."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every import every
from onnx import ModelProto, NodeProto, TensorProto, helper
from other_domains import MICROSOFT, ML
from string_models import assert_same, build, column, maps, of_array, of_runtime, strings

import stepwell
from stepwell import BorderModel, InputError, ModelError, StepwellError, UnsupportedError
from stepwell.dialects.core.mlir import make_context
from stepwell.frontends.onnx import import_model
from stepwell.signature import arrays_of

COLOURS, SIZES, LABELS = ["red", "green", "blue"], ["s", "m"], ["low", "middle", "high"]
RNG = np.random.default_rng(5)


def node(op: str, inputs: list[str], outputs: list[str], domain: str = "", name: str = "", **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, outputs, name=name or f"the_{op.lower()}", domain=domain, **attributes)


def classified(inputs: str, labels: Any) -> list[NodeProto]:
    """A linear classifier of seven features, with labels as scikit-learn's converter writes them: a map for each row."""
    given = {"classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints": labels}
    weights, offsets = np.random.default_rng(6).standard_normal(21).round(2).tolist(), [0.1, -0.2, 0.3]
    kind = "strings" if isinstance(labels[0], str) else "int64s"
    return [
        node("LinearClassifier", [inputs], ["label", "scores"], ML, coefficients=weights, intercepts=offsets, post_transform="SOFTMAX", **given),
        node("ZipMap", ["scores"], ["maps"], ML, **{f"classlabels_{kind}": labels}),
    ]


def tabular(rows: Any = "rows", ml: int = 1) -> ModelProto:
    """Two columns of strings and two of numbers, one-hot encoded and classified, as a Pipeline of scikit-learn is written."""
    nodes = [
        node("Concat", ["colour", "size"], ["both"], name="join", axis=1),
        node("ArrayFeatureExtractor", ["both", "first"], ["c"], ML, "colours"),
        node("ArrayFeatureExtractor", ["both", "second"], ["s"], ML, "sizes"),
        node("OneHotEncoder", ["c"], ["c3"], ML, "encode_colours", cats_strings=COLOURS),
        node("OneHotEncoder", ["s"], ["s3"], ML, "encode_sizes", cats_strings=SIZES),
        node("Concat", ["c3", "s3"], ["cs3"], name="join_columns", axis=2),
        node("Reshape", ["cs3", "five"], ["cs"]),
        node("Concat", ["cs", "numbers"], ["features"], name="join_features", axis=1),
        *classified("features", LABELS),
    ]
    inputs = [of_array(name, column("a"), [rows, 1]) for name in ("colour", "size")] + [of_array("numbers", np.zeros((1, 2), np.float32), [rows, 2])]
    weights = {"first": np.array([0]), "second": np.array([1]), "five": np.array([-1, 5])}
    return build(nodes, inputs, [of_array("label", strings("a"), [rows]), maps("maps", TensorProto.STRING)], weights, ml=ml)


ROWS = {
    "colour": column("red", "blue", "violet", "green"), "size": column("m", "s", "xl", "m"),
    "numbers": RNG.standard_normal((4, 2)).astype(np.float32),
}  # fmt: skip


def check(model: ModelProto, inputs: dict[str, Any], **options: Any) -> BorderModel:
    """Compiled, it gives what ONNX Runtime gives."""
    made = stepwell.compile(model, threads=1, **options)
    assert isinstance(made, BorderModel)
    want = of_runtime(model, inputs)
    got = made.run(inputs)
    assert list(got) == list(want)
    for name, value in want.items():
        assert_same(got[name], value)
    for info, value in zip(made.outputs, made(*inputs.values()), strict=True):
        assert_same(value, want[info.name])
    return made


@every("ml", [1, 3])
def test_columns_of_strings(ml: int) -> None:
    made = check(tabular(4, ml), ROWS)
    assert [str(info) for info in made.inputs] == ["string[4x1]", "string[4x1]", "float32[4x2]"]
    assert [str(info) for info in made.outputs] == ["string[4]", "seq(map(string, float32))"]
    before, behind = ([entry.name for entry in side] for side in (made.border.before, made.border.behind))
    assert before == ["join", "colours", "sizes", "encode_colours/numbers", "encode_sizes/numbers"]
    assert behind == ["the_linearclassifier/labels", "the_zipmap"]


def test_free_sizes() -> None:
    """One program for all numbers of rows; one of them made code of its own; the sizes of strings and of numbers are one."""
    made = check(tabular(), ROWS)
    assert made.general
    assert [str(info) for info in made.outputs] == ["string[rows]", "seq(map(string, float32))"]
    fewer = {name: array[:2] for name, array in ROWS.items()}
    want = of_runtime(tabular(), fewer)
    own = made.specialise({name: array.shape for name, array in fewer.items()})
    for model in (made, own, copy.copy(made), copy.deepcopy(own)):
        got = model.run(fewer)
        assert got["label"].tolist() == want["label"].tolist()
        assert_same(got["maps"], want["maps"])
    assert [info.shape for info in own.inner.inputs] == [(2, 2), (2, 1), (2, 1)]
    with pytest.raises(InputError, match=r"input 'numbers': expected float32\[2x2\], got shape 3x2"):
        own.run({**fewer, "numbers": ROWS["numbers"][:3]})
    fixed = stepwell.compile(tabular(), shapes={"size": (4, 1)})
    assert [info.shape for info in fixed.inputs] == [(4, 1), (4, 1), (4, 2)]


def test_strings_of_all_kinds_of_arrays() -> None:
    made = stepwell.compile(tabular(4))
    want = made.run(ROWS)["label"].tolist()
    for change in (lambda a: a.astype(str), lambda a: a.astype("S"), lambda a: np.asfortranarray(a), lambda a: np.repeat(a, 2, axis=0)[::2]):
        assert made.run({**ROWS, "colour": change(ROWS["colour"]), "size": change(ROWS["size"])})["label"].tolist() == want


@every(("change", "said"), [
    ({"colour": np.zeros((4, 1))}, r"input 'colour': expected string\[4x1\], strings as an array of type object or str, got dtype float64"),
    ({"colour": column("a")}, r"input 'colour': expected string\[4x1\], got shape 1x1"),
    ({"colour": np.array([["a"], [None], ["b"], ["c"]], object)}, r"got None as its element 1, which is no text"),
    ({"colour": np.array([["a"], [b"\xff"], ["b"], ["c"]], object)}, r"as its element 1, which is no text"),
    ({"colour": [["a"]]}, r"input 'colour': expected an array string\[4x1\], got a list"),
    ({"numbers": ROWS["numbers"].astype(np.float64)}, r"input 'numbers': expected float32\[4x2\], got dtype float64"),
    ({"other": column("a")}, r"unknown input 'other'; the model's inputs: colour, size, numbers"),
])  # fmt: skip
def test_inputs_that_do_not_fit(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        FIXED[0].run({**ROWS, **change})


class _Made:
    """One model for all tests that run it and change nothing."""

    def __getitem__(self, number: int) -> BorderModel:
        if not hasattr(self, "model"):
            self.model = stepwell.compile(tabular(4))
        assert isinstance(self.model, BorderModel)
        return self.model


FIXED = _Made()


def test_what_makes_no_sense_of_it() -> None:
    made = FIXED[0]
    with pytest.raises(InputError, match=r"output 'label': expected no array to write to, since string\[4\] is made in Python"):
        made.run(ROWS, out={"label": np.empty(4, object)})
    with pytest.raises(InputError, match="unknown output 'scores'"):
        made.run(ROWS, out={"scores": np.empty((4, 3), np.float32)})
    with pytest.raises(InputError, match=r"bind: expected a model that is all compiled, .*the_zipmap"):
        made.bind()
    with pytest.raises(InputError, match="specialise: expected a model with free sizes"):
        made.specialise({})
    with pytest.raises(InputError, match="cannot be pickled"):
        pickle.dumps(made)
    with pytest.raises(InputError, match="expected 3 inputs"):
        made(ROWS["colour"])
    assert made.kernels > 0
    assert made.threads > 0
    assert made.memory.weights_bytes > 0
    assert "graph" in made.ir("graph")
    assert made.settle()


def test_an_output_of_compiled_code_is_written_in_place() -> None:
    model = tabular(4)
    model.graph.output.append(helper.make_tensor_value_info("scores", TensorProto.FLOAT, [4, 3]))
    scores = np.zeros((4, 3), np.float32)
    results = stepwell.compile(model).run(ROWS, out={"scores": scores})
    assert results["scores"] is scores
    assert scores.sum() == pytest.approx(4, abs=1e-5)
    assert [list(row.values()) for row in results["maps"]] == scores.tolist()


@every("labels", [[7, 3, 5], LABELS])
def test_labels_and_maps(labels: Any) -> None:
    x = RNG.standard_normal((3, 7)).astype(np.float32)
    keys = TensorProto.STRING if isinstance(labels[0], str) else TensorProto.INT64
    check(build(classified("x", labels), [of_array("x", x)], ["label", maps("maps", keys)]), {"x": x})


def forest(labels: dict[str, Any]) -> NodeProto:
    """A tree of one split, with a vote in each leaf."""
    return node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], ML, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.25, 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0, 0, 0], class_nodeids=[1, 2, 2], class_ids=[0, 1, 2], class_weights=[1.0, 0.75, 0.25], **labels,
    )  # fmt: skip


def test_labels_of_other_classifiers() -> None:
    x = RNG.standard_normal((6, 2)).astype(np.float32)
    trees = build([forest({"classlabels_strings": LABELS})], [of_array("x", x)], ["label", "scores"])
    check(trees, {"x": x})
    machine = node(
        "SVMClassifier", ["x"], ["label", "scores"], ML, classlabels_strings=["no", "yes"], coefficients=[1.0, -1.0, 0.5],
        vectors_per_class=[1, 2], support_vectors=[0.5, 0.1, -0.3, 0.7, 0.2, -0.9], rho=[0.1], kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0],
    )  # fmt: skip
    check(build([machine], [of_array("x", x)], ["label", "scores"]), {"x": x})


def test_labels_that_are_looked_up() -> None:
    """As converters of classifiers without labels of their own write it: the greatest column, and its label of an initializer."""
    nodes = [
        node("ArgMax", ["x"], ["place"], axis=1, keepdims=0), node("ArrayFeatureExtractor", ["classes", "place"], ["rows"], ML),
        node("Reshape", ["rows", "flat"], ["label"]), node("LabelEncoder", ["label"], ["code"], ML, keys_strings=LABELS, values_int64s=[10, 20, 30]),
    ]  # fmt: skip
    x = RNG.standard_normal((5, 3)).astype(np.float32)
    model = build(nodes, [of_array("x", x)], ["label", "code", "place"], {"classes": strings(*LABELS), "flat": np.array([-1])})
    assert [entry.operator for entry in check(model, {"x": x}).border.behind] == ["ArrayFeatureExtractor", "Reshape", "LabelEncoder"]


def texts(rows: Any, mode: str = "TFIDF", **tokens: Any) -> ModelProto:
    """Texts in lower case, apart into words, counted, normalised, multiplied with a matrix."""
    given = {"mark": 0, "mincharnum": 2, "pad_value": "#", "tokenexp": "[a-zA-Z0-9_]+", **tokens}
    pool, places = ["dog", "fox", "quick", "brown", "fox", "quick", "dog"], [3, 0, 1, 2, 4]
    nodes = [
        node("Flatten", ["text"], ["row"], axis=0),
        node("StringNormalizer", ["row"], ["lower"], case_change_action="LOWER", locale="C.UTF-8"),
        node("Tokenizer", ["lower"], ["tokens"], MICROSOFT, **given),
        node("Squeeze", ["tokens", "zero"], ["words"]),
        node(
            "TfIdfVectorizer", ["words"], ["counts"], mode=mode, min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 3],
            ngram_indexes=places, pool_strings=pool, weights=[1.5, 0.5, 2.0, 3.0, 0.25],
        ),
        node("Normalizer", ["counts"], ["unit"], ML, norm="L2"),
        node("MatMul", ["unit", "w"], ["y"]),
    ]  # fmt: skip
    weights = {"w": RNG.standard_normal((5, 2)).astype(np.float32), "zero": np.array([0])}
    return build(nodes, [of_array("text", column("a"), [rows, 1])], ["y", "tokens"], weights)


TEXTS = column("The QUICK brown fox", "dog; a quick-quick dog", "", "fox fox fox fox unknown fox")


@every("mode", ["TF", "IDF", "TFIDF"])
def test_texts(mode: str) -> None:
    made = check(texts("texts", mode), {"text": TEXTS})
    assert [entry.operator for entry in made.border.before] == ["Flatten", "StringNormalizer", "Tokenizer", "Squeeze", "LabelEncoder"]
    if mode == "TF":
        with pytest.raises(InputError, match=r"'words.numbers' int64\[4x\?\], which is made in Python, has sizes that follow from none"):
            made.specialise({"text": (4, 1)})
        assert made.run({"text": column("x", "")})["y"].tolist() == [[0, 0], [0, 0]]


def test_nothing_is_left_to_compile() -> None:
    nodes = [
        node("StringConcat", ["a", "dot"], ["b"]), node("StringSplit", ["b"], ["parts", "counts"], delimiter="."), node("Identity", ["n"], ["m"]),
        node("Cast", ["n"], ["text"], to=TensorProto.STRING), node("Equal", ["a", "dot"], ["same"]),
    ]  # fmt: skip
    given = {"a": strings("x", "y.z", "."), "n": np.array([3, -4])}
    model = build(
        nodes, [of_array(name, array, ["n"]) for name, array in given.items()], ["parts", "counts", "m", "text", "same", "dot"], {"dot": strings(".")}
    )
    made = check(model, given)
    assert [str(info) for info in made.outputs][:2] == ["string[nx?]", "int64[n]"]
    assert not {entry.operator for entry in made.border.before} - {"StringConcat", "StringSplit", "Cast", "Equal"}
    assert not made.border.behind


def test_strings_come_and_go() -> None:
    """Nodes between, of numbers, that only nodes in Python need run there too; those that both need run twice."""
    nodes = [
        node("Shape", ["text"], ["shape"]), node("Gather", ["shape", "zero"], ["rows"], axis=0), node("Concat", ["rows", "two"], ["target"], axis=0),
        node("Reshape", ["text", "target"], ["grid"]), node("LabelEncoder", ["grid"], ["codes"], ML, keys_strings=["a", "b"], values_int64s=[5, 6]),
        node("Mul", ["codes", "codes"], ["squares"]), node("Cast", ["squares"], ["out"], to=TensorProto.STRING),
        node("Where", ["big", "out", "text2"], ["y"]), node("Greater", ["squares", "limit"], ["big"]),
    ]  # fmt: skip
    order = [*nodes[:6], nodes[8], nodes[6], nodes[7]]
    given = {"text": strings("a", "b", "z", "a").reshape(2, 1, 2), "text2": strings("p", "q")}
    weights = {"zero": np.array([0]), "two": np.array([2]), "limit": np.array([26])}
    made = check(build(order, [of_array(name, array) for name, array in given.items()], ["y", "squares"], weights), given)
    assert [entry.operator for entry in made.border.behind] == ["Cast", "Where"]


def test_a_map_as_input() -> None:
    for keys, values, given, attributes in (
        (TensorProto.STRING, TensorProto.FLOAT, {"b": 1.5, "z": 9.0}, {"string_vocabulary": ["a", "b"]}),
        (TensorProto.INT64, TensorProto.DOUBLE, {2: 0.1}, {"int64_vocabulary": [7, 2]}),
        (TensorProto.STRING, TensorProto.INT64, {"a": 3}, {"string_vocabulary": ["a", "b"]}),
    ):
        kind = helper.make_map_type_proto(keys, helper.make_tensor_type_proto(values, []))
        model = build([node("DictVectorizer", ["d"], ["v"], ML, **attributes), node("Neg", ["v"], ["y"])], [helper.make_value_info("d", kind)], ["y"])
        made = check(model, {"d": given}) if values == TensorProto.FLOAT else stepwell.compile(model)  # ONNX Runtime's Python takes floats alone
        want = np.array([[-given.get(word, 0) for word in next(iter(attributes.values()))]], helper.tensor_dtype_to_np_dtype(values))
        assert_same(made.run({"d": given})["y"], want)
    with pytest.raises(InputError, match=r"input 'd': expected map\(string, int64\), a dict, got a list"):
        made.run({"d": [1]})
    with pytest.raises(InputError, match="expected keys of type string, got 1"):
        made.run({"d": {1: 2}})
    with pytest.raises(InputError, match="expected values of type int64, got 'x' for 'a'"):
        made.run({"d": {"a": "x"}})


@every(("values", "attributes", "want"), [
    ({3: 1.5, 1: -2.0}, {}, np.array([[-2, 1.5]], np.float32)), ({3: 1.5, 1: -2.0}, {"cast_to": "TO_INT64"}, np.array([[-2, 1]])),
    ({0: "7", 2: "8"}, {"map_form": "SPARSE", "max_map": 4}, np.array([[7, 0, 8, 0]], np.float32)),
    ({2: "b", 1: "a"}, {"cast_to": "TO_STRING"}, np.array([["a", "b"]], object)),
])  # fmt: skip
def test_cast_map(values: dict[int, Any], attributes: dict[str, Any], want: np.ndarray) -> None:
    held = TensorProto.STRING if isinstance(next(iter(values.values())), str) else TensorProto.FLOAT
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(held, []))
    model = build([node("CastMap", ["d"], ["y"], ML, **attributes)], [helper.make_value_info("d", kind)], ["y"])
    assert_same(stepwell.compile(model).run({"d": values})["y"], want)


ENCODE = node("LabelEncoder", ["t"], ["n"], ML, keys_strings=["a"], values_int64s=[1])
THERE_AND_BACK = [
    ENCODE, node("Add", ["n", "n"], ["m"]), node("Cast", ["m"], ["u"], name="to_text", to=8),
    node("LabelEncoder", ["u"], ["v"], ML, name="back", keys_strings=["2"], values_int64s=[3]), node("Neg", ["v"], ["y"], name="negate"),
]  # fmt: skip
INSIDE = [
    (THERE_AND_BACK, UnsupportedError, r'Neg "negate".*made by nodes that run in Python'),
    ([node("Tile", ["t", "r"], ["y"], name="tile")], UnsupportedError, r'Tile "tile" \(opset 21\): its input \'t\' is of strings or maps'),
    ([node("StringNormalizer", ["t"], ["y"], case_change_action="TITLE")], UnsupportedError, r'StringNormalizer "the_stringnormalizer".*TITLE'),
    ([node("StringNormalizer", ["t"], ["y"], locale="tr_TR")], UnsupportedError, "locale='tr_TR'"),
    ([node("StringNormalizer", ["t"], ["y"], colour="red")], UnsupportedError, "attribute colour is not supported in Python"),
    ([node("LabelEncoder", ["t"], ["y"], ML, keys_strings=["a", "b"], values_int64s=[1])], ModelError, "as many keys as values"),
    ([node("Tokenizer", ["t"], ["y"], MICROSOFT, mark=0, mincharnum=0, pad_value="", separators=[" "])], ModelError, "mincharnum must be 1"),
    ([node("ZipMap", ["x"], ["y"], ML, classlabels_strings=["a"], classlabels_int64s=[1])], ModelError, "either integers or strings"),
    ([node("StringConcat", ["t"], ["y"])], ModelError, "1 inputs, which is not the number"),
    ([node("RegexFullMatch", ["t"], ["y"])], ModelError, "without the attribute pattern"),
]  # fmt: skip


@every(("nodes", "kind", "said"), INSIDE)
def test_strings_elsewhere(nodes: list[NodeProto], kind: type[StepwellError], said: str) -> None:
    model = build(nodes, [of_array("t", strings("a", "b")), of_array("x", np.zeros((2, 2), np.float32))], ["y"], {"r": np.array([2])})
    with pytest.raises(kind, match=said):
        import_model(model, make_context())


def test_every_node_that_is_refused_is_named() -> None:
    nodes = [node("Tile", ["t", "r"], [f"y{i}"], name=f"tile_{i}") for i in range(3)]
    model = build(
        [*nodes, node("Tile", ["y0", "r"], ["z"], name="behind_one")], [of_array("t", strings("a"))], ["y1", "y2", "z"], {"r": np.array([2])}
    )
    with pytest.raises(UnsupportedError) as error:
        stepwell.compile(model)
    assert [detail.split('"')[1] for detail in error.value.details] == ["tile_0", "tile_1", "tile_2"]


def test_data_that_a_node_does_not_take() -> None:
    model = build([node("Cast", ["t"], ["n"], name="parse\x1b[31m", to=1), node("Neg", ["n"], ["y"])], [of_array("t", strings("a"))], ["y"])
    with pytest.raises(InputError) as error:
        stepwell.compile(model).run({"t": strings("\x1b[2J")})
    assert 'Cast "parse\\x1b[31m", which runs in Python: element 0 is' in str(error.value)
    assert "\x1b" not in str(error.value)


def test_names_that_are_not_printable() -> None:
    model = build([node("StringConcat", ["a\n", "a\n"], ["b\x07"])], [of_array("a\n", strings("x"))], ["b\x07"])
    made = stepwell.compile(model)
    assert made.run({"a\n": strings("x")})["b\x07"].tolist() == ["xx"]
    assert [info.name for info in made.outputs] == ["b\\x07"]


def test_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without onnx: what runs in Python is in the record of the model."""
    monkeypatch.setenv("STEPWELL_CACHE", "1")
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "model.onnx"
    file.write_bytes(tabular().SerializeToString())
    first = stepwell.compile(file).run(ROWS)
    reached: list[str] = []
    again = stepwell.compile(file, on_level=lambda level, seconds: reached.append(level))
    assert reached == ["cache"]
    second = again.run(ROWS)
    assert second["label"].tolist() == first["label"].tolist()
    assert second["maps"] == first["maps"]
    assert again.inputs == stepwell.compile(file, cache=False).inputs
    assert again.outputs == stepwell.compile(file, cache=False).outputs


def test_maps_as_tensors() -> None:
    made = arrays_of("m", [{"b": 1.0, "a": 2.0}, {"a": 3.0, "b": 4.0}])
    assert made["m.keys"].tolist() == ["a", "b"]
    assert made["m.values"].tolist() == [[2, 1], [3, 4]]


def test_strings_that_nothing_uses() -> None:
    """They are left out; a model that has no others is all compiled."""
    nodes = [node("Constant", [], ["s"], value_strings=["a"]), node("Identity", ["s"], ["t"]), node("Neg", ["x"], ["y"])]
    x = np.ones(2, np.float32)
    made = stepwell.compile(build(nodes, [of_array("x", x)], [of_array("y", x)]))
    assert isinstance(made, stepwell.CompiledModel)
    assert made(x)[0].tolist() == [-1, -1]
