"""Delays slow imports of the bindings until they are needed."""

import re
import sys
import types
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

from stepwell.dialects.support.processes import uninterrupted

__all__ = ["defer", "without_named_ops"]

_LINALG = "torch_mlir.dialects.linalg"
_NAMED_OPS = f"{_LINALG}.opdsl.ops.core_named_ops"


class _WithoutNamedOps(MetaPathFinder, Loader):
    """Makes `linalg` import an empty module instead of the builders of its named ops (`linalg.matmul`), which take 0.1 s and load on first use."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == _NAMED_OPS else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        _add_names(module, import_module(f"{_LINALG}.opdsl.lang"))  # `linalg` has these names from there


def without_named_ops() -> None:
    """Import the bindings' `linalg` such that the functions of its named ops are made on first use."""
    finder = _WithoutNamedOps()
    sys.meta_path.insert(0, finder)
    try:
        module = import_module(_LINALG)
    finally:
        sys.meta_path.remove(finder)
    if isinstance(getattr(sys.modules.get(_NAMED_OPS), "__loader__", None), _WithoutNamedOps):
        del sys.modules[_NAMED_OPS]
        _hide_replaced(module)
        vars(module)["__getattr__"] = partial(_named_op, module)


def _hide_replaced(module: types.ModuleType) -> None:
    """Remove the functions of the generated module that the named ops replace, so that a look-up finds the latter."""
    generated = import_module(f"{_LINALG.rpartition('.')[0]}._linalg_ops_gen")
    source = find_spec(_NAMED_OPS)
    assert source is not None
    assert source.origin is not None
    for name in re.findall(r"(?m)^def (\w+)\(", Path(source.origin).read_text()):
        if vars(module).get(name) is getattr(generated, name, None):
            vars(module).pop(name, None)


def _named_op(linalg: types.ModuleType, name: str) -> Any:
    """An attribute that `linalg` does not have yet: the function of a named op, if there is one."""
    with uninterrupted():
        made = import_module(_NAMED_OPS)
    vars(linalg).pop("__getattr__", None)
    _add_names(linalg, made)
    return getattr(linalg, name)


def _add_names(module: types.ModuleType, source: types.ModuleType) -> None:
    """Like `from source import *` in a module, but without replacing existing names."""
    for name in getattr(source, "__all__", [name for name in vars(source) if not name.startswith("_")]):
        vars(module).setdefault(name, getattr(source, name))


def defer(name: str) -> None:
    """Load a module of the bindings on its first use, not when it is imported.

    Ops of a dialect that is not loaded have no Python classes of their own; everything else works.
    """
    if name in sys.modules:
        return
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module, loader = module_from_spec(spec), spec.loader

    def load(attribute: str) -> Any:
        if attribute.startswith("__"):  # the import system reads such names
            raise AttributeError(f"module '{name}' has no attribute '{attribute}'")
        vars(module).pop("__getattr__", None)
        with uninterrupted():
            loader.exec_module(module)
        return getattr(module, attribute)

    vars(module)["__getattr__"] = load
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    setattr(import_module(parent), child, module)
