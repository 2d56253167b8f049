"""Scikit-learn's handwritten digits: 1797 grey images of 8 x 8, split once and for all into training and held-out ones."""

import numpy as np
from sklearn.datasets import load_digits

__all__ = ["HELD_OUT", "split"]

HELD_OUT = 450  # images


def split() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """((images, labels) to train on, (images, labels) held out); images are float32[n, 1, 8, 8] from 0 to 1, labels int64[n]."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(2025).permutation(len(labels))
    held, train = order[:HELD_OUT], order[HELD_OUT:]
    return (images[train], labels[train]), (images[held], labels[held])
