"""Upstream's passes, pipelines and dialects by name: the data beside, whose names scripts/list_upstream_passes.py writes."""

import json
from pathlib import Path
from typing import Any


def _read(name: str) -> Any:
    return json.loads(Path(__file__).with_name(f"upstream_{name}.json").read_text(encoding="utf-8"))


NAMES: dict[str, list[str]] = _read("names")["passes"]
"""The names of upstream's passes and pipelines by the operation that they run on."""
DIALECTS: list[str] = _read("names")["dialects"]
SUMMARIES: dict[str, str] = _read("summaries")
"""Summaries of upstream's passes: those of the default pipeline, and others that people commonly add."""
