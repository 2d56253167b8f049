"""Imports the package of another checkout instead of the installed one."""

from pathlib import Path

__all__ = ["linked"]

_FIND_NOT_INSTALLED = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if not getattr(finder, "__module__", "").startswith("__editable___stepwell_")]
"""


def linked(root: Path, folder: Path) -> Path:
    """A new folder in `folder` that holds the package of the checkout at `root`: with it as PYTHONPATH, Python imports that package.

    Raises FileNotFoundError if `root` has no package.
    """
    if not (root / "compiler" / "__init__.py").is_file():
        raise FileNotFoundError(f"{root}: expected a checkout of stepwell, but it has no compiler/__init__.py")
    # The installed package is mapped from three folders; links do the same for the other checkout, if the installed one is not found first.
    package = folder / "package" / "stepwell"
    package.mkdir(parents=True)
    for entry in (*(root / "compiler").iterdir(), root / "dialects", root / "passes"):
        (package / entry.name).symlink_to(entry.resolve())
    (package.parent / "sitecustomize.py").write_text(_FIND_NOT_INSTALLED)
    return package.parent
