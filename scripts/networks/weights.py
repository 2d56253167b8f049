"""Seeded random weights by the part they play, such that activations keep their size through a deep network."""

import hashlib

import numpy as np

__all__ = ["Weights"]


class Weights:
    """Random weights of one network. A tensor depends on the seed, the network's and its own name, not on the order of asking."""

    def __init__(self, network: str, seed: int) -> None:
        self.network = network
        self.seed = seed

    def _generator(self, name: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self.seed}/{self.network}/{name}".encode()).digest()
        return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))

    def kernel(self, name: str, shape: tuple[int, ...], fan_in: int, gain: float = 2.0) -> np.ndarray:
        """Normal with variance gain / fan_in: He's 2 keeps the mean square through a ReLU, 1 keeps it without one."""
        values = self._generator(name).standard_normal(shape, dtype=np.float32)
        return values * np.float32(np.sqrt(gain / fan_in))

    def uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
        """Uniform in [low, high)."""
        values = self._generator(name).random(shape, dtype=np.float32)
        return values * np.float32(high - low) + np.float32(low)

    def bias(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A bias, a batch normalisation's bias or mean: small, of both signs."""
        return self.uniform(name, shape, -0.2, 0.2)

    def scale(self, name: str, shape: tuple[int, ...], centre: float = 1.0) -> np.ndarray:
        """A batch normalisation's scale: within a fifth of `centre`."""
        return self.uniform(name, shape, 0.8 * centre, 1.2 * centre)

    def variance(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A batch normalisation's variance: positive, about 1."""
        return self.uniform(name, shape, 0.5, 1.5)
