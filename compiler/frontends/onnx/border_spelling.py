"""Replaces string attributes of nodes by numbers and an adjacent LabelEncoder, so that everything but the encoder is compiled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto, helper

from stepwell.frontends.onnx.functions import domain_of
from stepwell.frontends.onnx.source import copy_without, refill
from stepwell.frontends.onnx.validation import FunctionKey, function_key, unique_name

ML = "ai.onnx.ml"
CLASSIFIERS = {"TreeEnsembleClassifier": "classlabels_int64s", "LinearClassifier": "classlabels_ints", "SVMClassifier": "classlabels_ints"}
"""By operator, the attribute with labels that are numbers."""
ENCODERS = {(ML, "OneHotEncoder"): ("cats_strings", "cats_int64s"), ("", "TfIdfVectorizer"): ("pool_strings", "pool_int64s")}
"""By operator, the attributes with strings, and those with numbers."""
NONE_OF_THEM = -1


def spell_strings_as_numbers(model: ModelProto, opsets: Mapping[str, int], functions: Iterable[FunctionKey]) -> dict[str, int]:
    """Rewrite a model, in place; returns the opset versions, with that of a LabelEncoder.

    rewrite: Encoder(x, strings) -> Encoder(LabelEncoder(x, strings to numbers), numbers)
    rewrite: label, scores = Classifier(x, strings) -> label = LabelEncoder(number, numbers to strings); number, scores = Classifier(x, numbers)
    """
    versions = {**opsets}
    versions.setdefault(ML, 2)
    taken = {node.name: 0 for node in model.graph.node}
    values = {name: 0 for node in model.graph.node for name in (*node.input, *node.output)}
    used = {name for node in model.graph.node for name in node.input} | {value.name for value in model.graph.output}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        key = (domain_of(node.domain), node.op_type)
        texts = {a.name: list(a.strings) for a in node.attribute}
        if function_key(node) in functions:
            nodes.append(node)
        elif key in ENCODERS and texts.get(ENCODERS[key][0]) and node.input:
            nodes += _encoded(node, *ENCODERS[key], versions[ML], taken, values)
        elif key[0] == ML and key[1] in CLASSIFIERS and len(texts.get("classlabels_strings", ())) > 1 and set(node.output[:1]) & used:
            nodes += _labelled(node, CLASSIFIERS[key[1]], versions[ML], taken, values)
        else:
            nodes.append(node)
    refill(model.graph, "node", nodes)
    return versions


def _encoded(node: NodeProto, texts: str, numbers: str, version: int, taken: dict[str, int], values: dict[str, int]) -> tuple[NodeProto, NodeProto]:
    given = [text for a in node.attribute if a.name == texts for text in a.strings]
    places = {text: number for number, text in enumerate(dict.fromkeys(given))}
    between = unique_name(f"{node.input[0]}.numbers", values)
    made = _without(node, texts, numbers)
    made.attribute.append(helper.make_attribute(numbers, [places[text] for text in given]))
    made.input[0] = between
    return _label_encoder(node, "numbers", node.input[0], between, list(places), version, taken, into_strings=False), made


def _labelled(node: NodeProto, numbers: str, version: int, taken: dict[str, int], values: dict[str, int]) -> tuple[NodeProto, NodeProto]:
    labels = [text for a in node.attribute if a.name == "classlabels_strings" for text in a.strings]
    between = unique_name(f"{node.output[0]}.number", values)
    made = _without(node, "classlabels_strings")
    made.attribute.append(helper.make_attribute(numbers, list(range(len(labels)))))
    made.output[0] = between
    return made, _label_encoder(node, "labels", between, node.output[0], labels, version, taken, into_strings=True)


def _label_encoder(
    node: NodeProto, what: str, given: str, gives: str, texts: Sequence[bytes], version: int, taken: dict[str, int], *, into_strings: bool
) -> NodeProto:
    """A node that maps texts to their numbers, or back."""
    if version < 2:
        attributes: dict[str, Any] = {"classes_strings": texts, "default_int64": NONE_OF_THEM}
    elif into_strings:
        attributes = {"keys_int64s": list(range(len(texts))), "values_strings": texts}
    else:
        attributes = {"keys_strings": texts, "values_int64s": list(range(len(texts))), "default_int64": NONE_OF_THEM}
    return helper.make_node("LabelEncoder", [given], [gives], name=unique_name(f"{node.name}/{what}", taken), domain=ML, **attributes)


def _without(node: NodeProto, *attributes: str) -> NodeProto:
    out: NodeProto = copy_without(node)
    refill(out, "attribute", [a for a in node.attribute if a.name not in attributes])
    return out
