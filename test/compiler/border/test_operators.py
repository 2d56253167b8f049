"""Each operator of the border against ONNX Runtime, or ONNX's evaluator where that follows the standard and the runtime does not."""

from typing import Any

import numpy as np
import pytest
from every import every
from onnx import helper
from onnx.reference import ReferenceEvaluator
from other_domains import MICROSOFT, ML
from string_models import assert_same, build, column, of_array, of_runtime, strings

from stepwell.border.lookup import all_operators
from stepwell.border.nodes import BorderNode
from stepwell.border.registry import Kind
from stepwell.dialects.support.errors import InputError, ModelError, StepwellError, UnsupportedError
from stepwell.frontends.onnx.border import border_attributes
from stepwell.records import read, write
from stepwell.signature import STRING

TEXTS = strings("Hello World!", "a b  c", "", "  ", "x", "héllo wörld", "a,b;c d", "ab1cd22 3")


def made(op: str, inputs: dict[str, np.ndarray], outputs: int, domain: str, version: int, attributes: dict[str, Any]) -> tuple[BorderNode, Any]:
    node = helper.make_node(op, list(inputs), [f"y{i}" for i in range(outputs)], name="the_node", domain=domain, **attributes)
    versions = {"": 21, ML: 3, MICROSOFT: 1} | {domain: version}
    model = build([node], [of_array(name, array) for name, array in inputs.items()], list(node.output), opset=versions[""], ml=versions[ML])
    return BorderNode(op, domain, version, node.name, tuple(inputs), tuple(node.output), border_attributes(node)), model


def check(op: str, *arrays: np.ndarray, outputs: int = 1, domain: str = "", version: int = 21, reference: bool = False, **attributes: Any) -> None:
    """What a node gives, and that its shape is the one that is inferred; by way of its record, as from the cache."""
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    node, model = made(op, inputs, outputs, domain, version, attributes)
    want = ReferenceEvaluator(model).run(None, inputs) if reference else list(of_runtime(model, inputs).values())
    node = read(write(node), BorderNode)
    kinds = node.infer({name: Kind.constant(a) if a.dtype == np.int64 else Kind(a.dtype, a.shape) for name, a in inputs.items()})
    for (name, got), expected in zip(node.run(inputs).items(), want, strict=True):
        assert_same(got, np.asarray(expected, object) if got.dtype == object else np.asarray(expected))
        assert kinds[name].dtype == got.dtype
        assert len(kinds[name].shape) == got.ndim
        assert all(size in (None, n) for size, n in zip(kinds[name].shape, got.shape, strict=True))


@every("change", ["NONE", "LOWER", "UPPER"])
@every("is_case_sensitive", [0, 1])
@every("stopwords", [(), ("the",), ("The", "world")])
def test_string_normalizer(change: str, is_case_sensitive: int, stopwords: tuple[str, ...]) -> None:
    given: dict[str, Any] = {"stopwords": stopwords} if stopwords else {}
    words = ("Hello", "the", "WORLD", "The", "École", "Straße", "Σας")
    for x in (strings(*words), strings(*words).reshape(1, -1), strings("the", "The"), strings("İ")):
        check("StringNormalizer", x, case_change_action=change, is_case_sensitive=is_case_sensitive, locale="C.UTF-8", **given)


PATTERNS: list[dict[str, Any]] = [
    *({"separators": s} for s in ([" "], [" ", ","], ["[ ,;]+"], [r"\s"], ["l*"], ["b|bc"], ["[[:punct:]]", r"\d+"])),
    *({"tokenexp": t} for t in ("[a-zA-Z0-9_]+", r"\w", "[a-z]+[0-9]*", "a|ab|l+", r"\b\w\w+\b", r"[^\s]+", "l*", "(?i)h|W", "l+?", "a?(ab)?")),
]


@every("pattern", PATTERNS)
@every("mark", [0, 1])
def test_tokenizer(pattern: dict[str, Any], mark: int) -> None:
    for x in (TEXTS, TEXTS.reshape(2, 4), strings("", "")):
        for least in (1, 2):
            check("Tokenizer", x, domain=MICROSOFT, version=1, mark=mark, mincharnum=least, pad_value="#", **pattern)


@every("mark", [0, 1])
def test_characters(mark: int) -> None:
    check("Tokenizer", TEXTS, domain=MICROSOFT, version=1, mark=mark, mincharnum=1, pad_value="", separators=[""])


@every("delimiter", [None, "", ",", "ab"])
@every("maxsplit", [None, 0, 1, 2])
def test_string_split(delimiter: str | None, maxsplit: int | None) -> None:
    """ONNX Runtime takes the space alone for whitespace, and gives nothing for an empty string."""
    given: dict[str, Any] = {name: value for name, value in {"delimiter": delimiter, "maxsplit": maxsplit}.items() if value is not None}
    x = strings("a,b,c", " a b  c ", "", "abab", "a,,b", ",", "xabyabz", "\ta\nb")
    check("StringSplit", x, outputs=2, reference=True, **given)
    check("StringSplit", x[:0], outputs=2, **given)
    check("StringSplit", strings("a", "b,", "cab", "d,e").reshape(2, 2), outputs=2, **given)


def test_string_concat() -> None:
    check("StringConcat", column("a", "b"), strings("c", "", "é"))


FULL = [
    r"www\.[\w.-]+\.\bcom\b", r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", "a|ab", "[[:alpha:]]+", r"\x{e9}", "a$", "^a", r"a\z", "[^a]", r"\d+",
    ".*", "(?s).*", "(?i)ABC", "a{2,3}", "a{2}", "a{,2}", "(?P<x>a)b", "[]a]", r"[\w-]+", "x*?", r"\Qa.b\E", "[a&&b]", r"\D\S", r"\s+",
]  # fmt: skip
WORDS_TO_MATCH = (
    "www.google.com", "a", "ab", "é", "a\n", "aaa", "abc", "ABC", "a.b", "", "me@yahoo.com", "]", "&", "12", "\u0663", "a{,2}", "-_", "\x0b", "\xa0",
)  # fmt: skip


@every("pattern", FULL)
def test_regex_full_match(pattern: str) -> None:
    check("RegexFullMatch", strings(*WORDS_TO_MATCH), pattern=pattern)


@every(
    ("pattern", "kind"),
    [(r"\pL", UnsupportedError), ("a**", UnsupportedError), (r"a\Z", UnsupportedError), ("(a+)+b", UnsupportedError), ("(?=a)", UnsupportedError),
     (r"(a)\1", UnsupportedError), ("a++", UnsupportedError), ("(?i)\\bk", UnsupportedError), ("[a", ModelError), ("(a", ModelError),
     ("a{3,1}", ModelError), ("[[:alphabet:]]", UnsupportedError), ("(?U)a", UnsupportedError)],
)  # fmt: skip
def test_patterns_that_differ(pattern: str, kind: type[StepwellError]) -> None:
    with pytest.raises(kind, match="the pattern"):
        made("RegexFullMatch", {"x": TEXTS}, 1, "", 21, {"pattern": pattern})[0].infer({"x": Kind(STRING, (8,))})


def test_a_pattern_with_an_anchor_and_choices() -> None:
    node = made("Tokenizer", {"x": TEXTS}, 1, MICROSOFT, 1, {"mark": 0, "mincharnum": 1, "pad_value": "", "tokenexp": r"\b(a|ab)"})[0]
    with pytest.raises(UnsupportedError, match="with an anchor and several ways to match"):
        node.infer({"x": Kind(STRING, (8,))})


FLOATS = [1.5, 3.14159265358979, 1e-7, 1e20, np.nan, np.inf, -np.inf, 123456789.0, 0.1, -0.0]


@every("kind", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_])
def test_numbers_as_text(kind: Any) -> None:
    numbers = FLOATS if np.dtype(kind).kind == "f" else [1, 100, 0]
    with np.errstate(over="ignore"):
        check("Cast", np.array(numbers).astype(kind), to=8)


@every(("to", "texts"), [
    *((to, ("1", "1.5", "-2e3", "inf", "-INF", "NaN", " 3", " .5", "1.", "+4", "1E3")) for to in (1, 10, 11)),
    *((to, ("1", "15", "+4", " 7", "0")) for to in (2, 3, 5, 6, 7, 12, 13)),
    (9, ("1", "0", "2")),
])  # fmt: skip
def test_text_as_numbers(to: int, texts: tuple[str, ...]) -> None:
    check("Cast", strings(*texts), to=to)


BAD_NUMBERS = [
    (1, "abc", "no number"),
    (7, "1.7", "no whole number"),
    (2, "300", "does not hold"),
    (7, "", "no whole number"),
    (1, "1_0", "no number"),
]


@every(("to", "text", "said"), BAD_NUMBERS)
def test_text_that_is_no_number(to: int, text: str, said: str) -> None:
    with pytest.raises(InputError, match=rf'Cast "the_node", which runs in Python: element 1 is .*{said}'):
        made("Cast", {"x": TEXTS}, 1, "", 21, {"to": to})[0].run({"x": strings("1", text)})


@every(("version", "x", "attributes"), [
    (2, strings("a", "b", "z"), {"keys_strings": ["a", "b"], "values_int64s": [1, 2], "default_int64": 7}),
    (2, strings("a", "b", "z"), {"keys_strings": ["a", "b"], "values_floats": [1.25, 2.0]}),
    (2, strings("a", "z"), {"keys_strings": ["a"], "values_strings": ["b"]}),
    (2, np.array([[1, 2]]), {"keys_int64s": [1], "values_strings": ["one"], "default_string": "more"}),
    (4, np.array([1.5, np.nan, 2], np.float32), {"keys_floats": [1.5, np.nan], "values_strings": ["x", "none"]}),
    (4, column("a", "z"), {"keys_tensor": helper.make_tensor("k", 8, [2], ["a", "b"]), "values_tensor": helper.make_tensor("v", 6, [2], [5, 6]),
                           "default_tensor": helper.make_tensor("d", 6, [1], [-3])}),
    (4, np.array([1.5, 3]), {"keys_tensor": helper.make_tensor("k", 11, [1], [1.5]), "values_tensor": helper.make_tensor("v", 8, [1], ["x"])}),
    (1, strings("b", "z"), {"classes_strings": ["a", "b"], "default_int64": 9}),
    (1, np.array([1, 5]), {"classes_strings": ["a", "b"], "default_string": "?"}),
])  # fmt: skip
def test_label_encoder(version: int, x: np.ndarray, attributes: dict[str, Any]) -> None:
    if version == 4 and x.dtype == object:  # ONNX Runtime has no such one
        node, _ = made("LabelEncoder", {"x": x}, 1, ML, 4, attributes)
        assert read(write(node), BorderNode).run({"x": x})["y0"].tolist() == [[5], [-3]]
        return
    check("LabelEncoder", x, domain=ML, version=version, **attributes)


@every("x", [np.array([5, 1, 7]), strings("a", "x")])
def test_category_mapper(x: np.ndarray) -> None:
    check("CategoryMapper", x, domain=ML, version=1, cats_strings=["a", "q"], cats_int64s=[5, 1], default_int64=-4, default_string="none")


WORDS = np.array([["b", "a", "", "é"], ["c", "a", "d", "a"]], object)


@every(("op", "more", "attributes", "version"), [
    ("Reshape", [np.array([2, -1, 2])], {}, 21), ("Reshape", [np.array([0, 4])], {}, 21), ("Flatten", [], {"axis": 0}, 21),
    ("Transpose", [], {}, 21), ("Transpose", [], {"perm": [1, 0]}, 21), ("Identity", [], {}, 21), ("Shape", [], {"start": -1}, 21),
    ("Unsqueeze", [np.array([0, -1])], {}, 21), ("Unsqueeze", [], {"axes": [1]}, 11), ("Concat", [WORDS[:1]], {"axis": 0}, 21),
    ("Gather", [np.array([[1, -1]])], {"axis": 1}, 21), ("Equal", [WORDS[:, :1]], {}, 19),
    ("Slice", [np.array([-1, 0]), np.array([-9, 3]), np.array([0, 1]), np.array([-1, 2])], {}, 21),
])  # fmt: skip
def test_movement(op: str, more: list[np.ndarray], attributes: dict[str, Any], version: int) -> None:
    check(op, WORDS, *more, version=version, **attributes)


def test_movement_of_other_kinds() -> None:
    check("Squeeze", WORDS[np.newaxis], version=21)
    check("Squeeze", WORDS[np.newaxis], np.array([0]), version=21)
    check("Squeeze", WORDS[np.newaxis], version=11, axes=[0])
    check("Where", np.array([[True], [False]]), WORDS, strings("z"))
    check("ArrayFeatureExtractor", WORDS, np.array([2, 0]), domain=ML, version=1)
    check("ArrayFeatureExtractor", WORDS[0], np.array([[1]]), domain=ML, version=1)


def test_every_operator_has_a_test() -> None:
    """Those of maps are in test_border.py, as are constants."""
    elsewhere = {"ZipMap", "DictVectorizer", "CastMap", "Constant", "Not"}
    with open(__file__) as file:
        text = file.read()
    assert [entry.name for entry in all_operators() if entry.name not in elsewhere and f'"{entry.name}"' not in text] == []
