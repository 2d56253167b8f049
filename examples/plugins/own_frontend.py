"""A front end: chains of layers, as Python objects or JSON files, become graph IR, without ONNX.

    .venv/bin/python examples/plugins/own_frontend.py net.chain    # writes such a file
    stepwell run net.chain --load examples/plugins/own_frontend.py --shape x=2x5x16 --check reference
    stepwell inspect net.chain --load examples/plugins/own_frontend.py

Everything after the front end works as for ONNX: dynamic sizes, the cache, checks of levels, listings that name the layers.
"""

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from stepwell.plugin import (
    FrontEnd,
    ImportedModel,
    ImportOptions,
    ModelBuilder,
    ModelError,
    NewModel,
    Summary,
    Value,
    blocks,
    content_of,
    ir,
    register_frontend,
)  # fmt: skip

ACTIVATIONS = ("relu", "tanh", "sigmoid")


@dataclass(frozen=True)
class Layer:
    """A product with weights, `x w`. With `heads` the columns of the product are queries, keys and values, and the layer is self-attention."""

    name: str
    weights: list[list[float]]
    heads: int = 0
    activation: str = ""


@dataclass(frozen=True)
class Chain:
    """Layers, one after the other, on sequences of vectors: (batch, length, size)."""

    size: int
    layers: list[Layer]

    def text(self) -> str:
        """The content of a `.chain` file."""
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> "Chain":
        """The reverse of `text`. Raises ModelError if it is malformed."""
        try:
            read = json.loads(text)
            return Chain(int(read["size"]), [Layer(**layer) for layer in read["layers"]])
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"not a chain: {error}") from None


@register_frontend("chain")
class ChainFrontEnd(FrontEnd):
    """Accepts files by their suffix, and `Chain` objects."""

    accepted = "the path of a .chain file or a Chain"

    def accepts(self, source: object) -> bool:
        return isinstance(source, Chain) or (isinstance(source, Path) and source.suffix == ".chain")

    def digest(self, source: object) -> bytes | None:
        """The key of the model in the cache. The digest of a file is that of its bytes."""
        return hashlib.sha256(source.text().encode()).digest() if isinstance(source, Chain) else super().digest(source)

    def load(self, source: object, context: ir.Context, options: ImportOptions) -> ImportedModel:
        content = None if isinstance(source, Chain) else content_of(source)
        chain = source if isinstance(source, Chain) else Chain.parse(bytes(content or b"").decode())
        model = NewModel(context, {"x": ("f32", ("batch", "length", chain.size))}, options)
        value = model.values["x"]
        for layer in chain.layers:
            with model.node(layer.name):
                value = build(model, layer, value)
        return model.finished({"y": value}, content=content)

    def summary(self, source: object) -> Summary:
        chain = source if isinstance(source, Chain) else Chain.parse(bytes(content_of(source)).decode())
        counts = {kind: sum(bool(layer.heads) == (kind == "attention") for layer in chain.layers) for kind in ("dense", "attention")}
        return Summary(f"a chain of {len(chain.layers)} layers", operators=[[kind, str(count)] for kind, count in counts.items() if count])


def build(model: NewModel, layer: Layer, x: Value) -> Value:
    """The ops of one layer. The builder raises errors for operands that do not fit, and names the node."""
    b: ModelBuilder = model.builder
    y = b.matmul(x, model.weight(layer.name, np.array(layer.weights, np.float32)))
    if layer.heads:
        size = len(layer.weights[0]) // 3
        q, k, v = (blocks.heads.split_heads(b, part, layer.heads) for part in blocks.slicing.split_axis(b, y, 2, [size] * 3))
        y = blocks.heads.merge_heads(b, blocks.heads.attend(b, q, k, v, [], scale=0.0))
    if layer.activation and layer.activation not in ACTIVATIONS:
        raise ModelError(f"layer '{layer.name}': expected an activation among {', '.join(ACTIVATIONS)}, got '{layer.activation}'")
    return y if not layer.activation else getattr(b, layer.activation)(y)


def expected(chain: Chain, x: np.ndarray) -> np.ndarray:
    """The result of a chain, computed in numpy."""
    for layer in chain.layers:
        x = x @ np.array(layer.weights)
        if layer.heads:
            q, k, v = (part.reshape(*x.shape[:2], layer.heads, -1).swapaxes(1, 2) for part in np.split(x, 3, axis=2))
            scores = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]))
            x = (scores / scores.sum(3, keepdims=True) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1)
        x = {"": x, "relu": np.maximum(x, 0), "tanh": np.tanh(x), "sigmoid": 1 / (1 + np.exp(-x))}[layer.activation]
    return x


def example(scale: float = 0.3) -> Chain:
    """A small chain with random weights."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> list[list[float]]:
        return (scale * random.standard_normal(shape)).tolist()

    return Chain(16, [Layer("mix", weights(16, 48), heads=2), Layer("widen", weights(16, 40), activation="tanh"), Layer("last", weights(40, 8))])


if __name__ == "__main__":
    import stepwell

    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(example().text())
    chain, x = example(), np.random.default_rng(1).standard_normal((2, 5, 16), np.float32)
    model = stepwell.compile(chain, shapes={"x": (2, 5, 16)})
    np.testing.assert_allclose(model.run({"x": x})["y"], expected(chain, x), rtol=1e-4, atol=1e-5)
    print(f"a chain of {len(chain.layers)} layers in {model.kernels} kernels: as expected")
