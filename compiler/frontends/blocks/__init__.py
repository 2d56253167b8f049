"""Builders of compositions of graph ops that belong to no format: attention, resampling, recurrence, scatters and the like.

A block takes a `ModelBuilder` and values; it builds at the builder's insertion point. Modules are loaded when they are first used.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

__all__ = sorted(module.name for module in iter_modules(__path__))


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'; it has: {', '.join(__all__)}")
    return import_module(f"{__name__}.{name}")
