"""What tests of the quantiser share: a network that is quantised once, and the machine code of kernels that are the same, which need not be fast."""

import numpy as np
import objects_once
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


@pytest.fixture(autouse=True)
def _objects_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.backends.llvm_cpu.pool.compile_units", objects_once.compile_plainly)
