"""A network that several tests look at, quantised once."""

import numpy as np
import pytest
from float_networks import branching

from stepwell.quantizer import Quantized, quantize


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    """Batches of images that the network is quantised with."""
    return np.random.default_rng(1).normal(0.2, 1, (6, 2, 3, 12, 12)).astype(np.float32)


@pytest.fixture(scope="session")
def network(images: np.ndarray) -> Quantized:
    """`float_networks.branching`, quantised."""
    return quantize(branching(0), {"x": images})
