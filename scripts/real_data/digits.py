"""The example's network for scikit-learn's 1,797 handwritten digits of 8 x 8, trained anew for each fold."""

from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits

from real_data.example import network
from real_data.training import trained
from real_data.trial import Say, Trial

__all__ = ["trials"]

EPOCHS = 15


def trials(folds: int, say: Say) -> Iterator[Trial]:
    """One trial a fold."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    yield from trained("digits", images, digits.target.astype(np.int64), network, EPOCHS, folds, say)
