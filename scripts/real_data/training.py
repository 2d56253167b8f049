"""Networks for handwritten digits, trained in numpy with the layers of examples/digits: one for each fold, kept under build/."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from real_data.example import FOLDER, ROOT, Layer, to_onnx, train
from real_data.trial import Outputs, Say, Trial, as_feeds, equal
from stepwell.dialects.support.files import write_atomically

__all__ = ["FOLDS", "trained"]

FOLDS = 5
CALIBRATION = 200  # of the images that a fold trains on
Network = Callable[[np.random.Generator], list[Layer]]


def trained(task: str, images: np.ndarray, labels: np.ndarray, network: Network, epochs: int, folds: int, say: Say) -> Iterator[Trial]:
    """A trial for each of the first `folds` of five folds: trained on four fifths of the images, judged by the others.

    `images` is float32[n, 1, side, side], `labels` integers from 0 to 9. The folds have the same share of each digit; their networks differ in
    the seed as well.
    """
    parts = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(images, labels)
    for fold, (others, held) in zip(range(folds), parts, strict=False):
        model = _network(task, fold, images[others], labels[others], network, epochs, say)
        chosen = np.random.default_rng(fold).permutation(others)[:CALIBRATION]
        yield Trial(
            task, fold, model, as_feeds(images[chosen], "image"), as_feeds(images[held], "image"), [int(label) for label in labels[held]],
            _digit, {"accuracy": equal},
        )  # fmt: skip


def _digit(outputs: Outputs) -> int:
    return int(outputs["probability"].argmax())


def _network(task: str, fold: int, images: np.ndarray, labels: np.ndarray, network: Network, epochs: int, say: Say) -> onnx.ModelProto:
    """Train, or read what an earlier call trained on the same data with the same code."""
    digest = hashlib.sha256(images.tobytes() + labels.tobytes() + f"{epochs} {fold}".encode())
    for source in (FOLDER / "layers.py", FOLDER / "train.py", Path(str(sys.modules[network.__module__].__file__))):
        digest.update(source.read_bytes())
    path = ROOT / "build" / "real-data" / f"{task}-{digest.hexdigest()[:16]}.onnx"
    if not path.exists():
        random = np.random.default_rng(fold)
        layers = network(random)
        with threadpool_limits(1):  # a second thread costs more time than it saves with matrices as small as these
            for epoch, loss in enumerate(train(layers, images, labels, random, epochs)):
                say(f"{task}, fold {fold + 1}: trained epoch {epoch + 1} of {epochs}, loss {loss:.3f}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_onnx(layers, task, images.shape[-1]).SerializeToString())
    return onnx.load(path)
