"""The network that tells types of files in the package magika, on files of this system."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from real_data.packages import file_of
from real_data.trial import Answer, Feed, Outputs, Say, Trial, equal, for_samples

__all__ = ["trials"]

CALIBRATION, FILES = 100, 600
FOLDERS = (Path("/usr/share"), Path("/usr/lib"), Path("/usr/bin"), Path(sys.base_prefix) / "lib")
PER_SUFFIX = 20  # files whose names end alike
SMALLEST = 64  # bytes of a file


def trials(folds: int, say: Say) -> Iterator[Trial]:
    """One trial: nothing is trained here, so that there are no folds."""
    say("magika: reading files")
    model = onnx.load(file_of("magika", "models/*/model.onnx"))
    settings = json.loads(file_of("magika", "models/*/config.min.json").read_text())
    labels: list[str] = settings["target_labels_space"]
    types = json.loads(file_of("magika", "config/content_types_kb.min.json").read_text())
    told = _told_by_suffix(labels, types)
    read = [(path, feed) for path in _chosen(FOLDERS) if (feed := _features(path, settings, model)) is not None]
    order = np.random.default_rng(11).permutation(len(read))[: CALIBRATION + FILES]
    chosen = [read[i] for i in order]
    name = model.graph.output[0].name

    def answer(outputs: Outputs) -> str:
        return _decided(outputs[name][0], settings, types)

    feeds = [feed for _, feed in chosen]
    truths: list[Answer | None] = [told.get(path.suffix.removeprefix(".").lower()) for path, _ in chosen]
    model = for_samples(model, feeds[0])
    yield Trial("magika", 0, model, feeds[:CALIBRATION], feeds[CALIBRATION:], truths[CALIBRATION:], answer, {"accuracy": equal})


def _decided(scores: np.ndarray, settings: dict[str, Any], types: dict[str, dict[str, Any]]) -> str:
    """The answer that the package gives by default: the best type where the network is sure enough of it, else whether it is text."""
    best = int(scores.argmax())
    label: str = settings["target_labels_space"][best]
    shown: str = settings["overwrite_map"].get(label, label)
    if scores[best] >= settings["thresholds"].get(label, settings["medium_confidence_threshold"]):
        return shown
    return "txt" if types[shown]["is_text"] else "unknown"


def _told_by_suffix(labels: list[str], types: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The one type that each ending of a name is said to mean; endings that several types have are left out."""
    claims = [(suffix, label) for label in labels for suffix in types[label]["extensions"]]
    count = Counter(suffix for suffix, _ in claims)
    return {suffix: label for suffix, label in claims if count[suffix] == 1}


def _chosen(folders: Iterable[Path]) -> Iterator[Path]:
    """Plain files below these folders, in the order of their names, few of each ending and evenly among all that have it."""
    by_suffix: dict[str, list[Path]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                by_suffix.setdefault(path.suffix.lower(), []).append(path)
    for paths in by_suffix.values():
        yield from paths[:: -(-len(paths) // PER_SUFFIX)]


def _features(path: Path, settings: dict[str, Any], model: onnx.ModelProto) -> Feed | None:
    """The network's input for a file, made by the package's own code; None for a file that is too small or cannot be read."""
    from magika import Magika
    from magika.types.seekable import Seekable

    names = ("beg_size", "mid_size", "end_size", "padding_token", "block_size", "use_inputs_at_offsets")
    try:
        with path.open("rb") as stream:
            whole = Seekable(stream)
            if whole.size < SMALLEST:
                return None
            found = Magika._extract_features_from_seekable(whole, **{name: settings[name] for name in names})
    except OSError:
        return None
    return {model.graph.input[0].name: np.array([[*found.beg, *found.end]], np.int32)}
