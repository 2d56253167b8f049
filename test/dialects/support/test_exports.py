"""Names that a module offers and loads on use, and packages that load all of their modules."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ON_USE = """\
from typing import TYPE_CHECKING
from stepwell.dialects.support.exports import names_on_use
if TYPE_CHECKING:
    from offering.inner.part import value as value
    from offering import inner as inner
else:
    __getattr__, __dir__, __all__ = names_on_use(__name__, first="offering.before")
"""
ALL = "from stepwell.dialects.support.exports import load_modules\nload_modules(__name__)\n"


def test_names_are_loaded_on_use_and_modules_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"__init__": ON_USE, "before": "", "loading/__init__": ALL, "loading/b": "", "loading/a/__init__": "", "loading/a/c": "",
             "inner/__init__": "", "inner/part": "value = 7\n"}  # fmt: skip
    for name, text in files.items():
        path = tmp_path / "offering" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    modules = dict(sys.modules)
    monkeypatch.setattr(sys, "modules", modules)  # forgets what follows
    offering = import_module("offering")
    assert offering.__all__ == dir(offering) == ["inner", "value"]
    with pytest.raises(AttributeError, match="module 'offering' has no attribute 'other'; it has: inner, value"):
        offering.other  # noqa: B018
    assert [name for name in modules if name.startswith("offering")] == ["offering"]
    assert offering.value == 7
    assert [name for name in modules if name.startswith("offering.")] == ["offering.before", "offering.inner", "offering.inner.part"]
    assert offering.inner is modules["offering.inner"]
    import_module("offering.loading")
    assert [name for name in modules if name.startswith("offering.loading.")] == [f"offering.loading.{name}" for name in ("a", "a.c", "b")]
