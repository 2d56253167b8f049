"""The WebAssembly family: vectors of 128 bits, no fused multiply-add, and one thread."""

from stepwell.dialects.target.capabilities import Capabilities
from stepwell.dialects.target.families import Family, register_family
from stepwell.dialects.target.numbers import COMMON_PIPES, Caches, Vectors

WASM32 = register_family(Family(
    "wasm32", ("wasm32",), lambda _: Vectors(128, 16, fma=False), Caches(32 << 10, 512 << 10, 4 << 20, 1), lambda *_: COMMON_PIPES,
    capabilities=lambda _: Capabilities(maximum_selects=True, folds_in_halves=False),  # a maximum is `pmax`
    compiles_halves=False, relocations="static",  # a module is linked once, with its memory
))  # fmt: skip
