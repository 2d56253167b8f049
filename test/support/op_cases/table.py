"""The table of the ops whose operands and attributes cannot be derived from their definition alone."""

from collections.abc import Callable

from op_random import Case, Random

Maker = Callable[[Random], Case]
CASES: dict[str, Maker] = {}
DOMAINS: dict[str, tuple[float, float]] = {}
"""Where tame operands of element-wise ops lie, if not between -4 and 4."""


def case(*mnemonics: str) -> Callable[[Maker], Maker]:
    """Register the function that makes the cases of these ops."""

    def add(make: Maker) -> Maker:
        CASES.update(dict.fromkeys(mnemonics, make))
        return make

    return add
