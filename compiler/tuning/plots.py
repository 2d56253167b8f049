"""Pictures of a tuning run as PNG and SVG files, and as SVG elements of a page. matplotlib is imported on use."""

import importlib.util
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.files import write_atomically
from stepwell.tuning.figures import FIGURES, GRID, INK, PAPER, QUIET, style
from stepwell.tuning.story import FORMATS, Story

DPI = 150
"""Pixels an inch of PNG files: pictures are 8 inches, so 1200 pixels, wide."""
THEME = {INK: "var(--ink)", QUIET: "var(--quiet)", GRID: "var(--line)", PAPER: "none"}
"""The colours of figures that a page replaces by its own, which follow the reader's light or dark theme."""


def check_packages(packages: Sequence[str] = ("matplotlib",)) -> None:
    """Raise InputError unless the packages for pictures are installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"pictures and reports need {' and '.join(missing)}: pip install 'stepwell[tune]'")


def save_pictures(story: Story, folder: str | os.PathLike[str], form: str = "png", *, dpi: int = DPI) -> list[Path]:
    """Write all pictures of a run to a folder, which must exist; returns the paths of the files. `dpi` is for PNG files, in pixels an inch.

    Raises InputError for another format or without matplotlib, OSError if a file cannot be written.
    """
    if form not in FORMATS:
        raise InputError(f"form: expected {' or '.join(FORMATS)}, got {shown(form)}")
    check_packages()
    written = []
    for name in FIGURES:
        written.append(Path(folder) / f"{name}.{form}")
        write_atomically(written[-1], _drawn(story, name, form, dpi))
    return written


def svg_element(story: Story, name: str) -> str:
    """One picture as an SVG element of an HTML page, with the page's colours. Its IDs are unique among the pictures of a page."""
    text = _drawn(story, name, "svg", DPI).decode()
    text = text[text.index("<svg") :]  # without the declarations of a separate file
    return re.sub(r"<[^>]*>", lambda tag: _themed(_prefixed(tag[0], name)), text)


def _drawn(story: Story, name: str, form: str, dpi: int) -> bytes:
    data = io.BytesIO()
    with style(name):
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if form == "svg" else ("Software",))
        FIGURES[name][0](story).savefig(data, format=form, dpi=dpi, metadata=metadata)
    return data.getvalue()


def _prefixed(tag: str, name: str) -> str:
    """A tag of an SVG file with a prefix of its IDs and of references to them."""
    return re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", tag)


def _themed(tag: str) -> str:
    for colour, variable in THEME.items():
        tag = tag.replace(colour, variable)
    return tag
