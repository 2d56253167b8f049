"""stepwell run DIR: runs a bundle through its interface in C, and shows, checks, times and saves the outputs."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from stepwell.bundling.loading import BundledModel, load
from stepwell.cli.checks import check_outputs
from stepwell.cli.common import OK, UsageError
from stepwell.cli.display import Progress, plural, quantity, say
from stepwell.cli.execute import repeat, save, show_outputs
from stepwell.cli.inputs import gather
from stepwell.cli.shapes import Range, parse_given, usual_values
from stepwell.dialects.support.digests import file_digest
from stepwell.dialects.support.errors import InputError

CHECKS = ("onnxruntime", "reference", "file")


def run_bundle(options: argparse.Namespace, against: tuple[str, str | None] | None) -> int:
    """Run the bundle in a folder; returns the exit status. `against` is the reference for the outputs. Raises StepwellError or UsageError."""
    if against is not None and against[0] not in CHECKS:
        raise UsageError(f"--check {options.check}: a bundle has no IR; expected onnxruntime, reference or a file .npz")
    with Progress(doing="load the bundle"):
        model = load(options.model, threads=options.threads)
    reference = None if against is None else (against[0], _reference(model, options, against))
    inputs = gather(options.input, model.inputs, sizes=_sizes(model, options.shape), extreme=options.inputs == "extreme")
    with Progress(doing="run"):
        outputs = model.run(inputs)
    weights = model.manifest.weights
    size = "weights in the code" if weights is None else f"weights {quantity(weights.bytes, 'B')}"
    say(f"bundle {model.name} for {model.manifest.target.name}, {size}, {quantity(model.context_bytes, 'B')} for each caller")
    say(f"{plural(model.threads, 'thread')}\n", flush=True)
    show_outputs(outputs)
    status = OK if reference is None else check_outputs(reference, None, inputs, outputs)
    if options.repeat is not None:
        repeat(model, inputs, options.repeat)
    if options.save is not None:
        save(outputs, options.save)
    return status


def _sizes(model: BundledModel, texts: Sequence[str]) -> Mapping[str, int]:
    """Numbers for the free sizes of random inputs: those of `--shape`, else usual ones. Raises UsageError for shapes that no input has."""
    infos, given = {info.name: info for info in model.inputs}, dict(parse_given(texts))
    for name, sizes in given.items():
        if name not in infos or len(sizes) != len(infos[name].shape):
            raise UsageError(f"--shape: the bundle has no input '{name}' of {plural(len(sizes), 'dimension')}; it has {', '.join(map(str, infos))}")
        shape = infos[name].shape
        given[name] = tuple(Range(n, n) if isinstance(n, int) and isinstance(size, str) else n for n, size in zip(sizes, shape, strict=True))
    return usual_values(given, model.inputs)


def _reference(model: BundledModel, options: argparse.Namespace, against: tuple[str, str | None]) -> str:
    """The file to compare with: by default the model that the bundle was made of. Raises InputError if that is not there any more."""
    kind, file = against
    if file is not None:
        return file
    source = model.manifest.source
    wanted = f"--check {kind}:MODEL.onnx"
    if source is None:
        raise InputError(f"--check {options.check}: the bundle was not made of a file; expected {wanted}")
    path = Path(options.model) / source.path
    digest = file_digest(path)
    if digest is None or digest.hex() != source.blake3:
        what = "gone" if digest is None else "changed"
        raise InputError(f"--check {options.check}: {path}, of which the bundle was made, is {what}; expected {wanted}")
    return str(path)
