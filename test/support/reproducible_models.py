"""Networks, small enough for emulated machines, whose results must be the same everywhere, and digests of results."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import crossing
import native_ops
import node_bundles
import numpy as np
import onnx
from bundle_models import Case
from op_closeness import meaningful
from small_networks import small_image, small_network

import networks
import stepwell
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.support.files import write_atomically
from stepwell.driver import build, lowering
from stepwell.driver.artifact import assemble

IMAGES = ("densenet121", "mobilenetv2", "resnet50v2", "squeezenet")
"""The networks of images."""
SEQUENCES = ("detector", "encoder", "gpt", "llama", "ocr", "translator")
WASM = "wasm32-simd128"
RUNS = 2
"""Runs of a network with free sizes, each of other sizes."""
GOLDEN = ("detector", "encoder", "gpt", "llama", "mobilenetv2", "ocr", "squeezenet", "translator")
"""The networks whose digests are kept."""
DIGESTS = Path(__file__).resolve().parents[1] / "reproducible.json"
"""The digests of their results, which no machine and no later version may change without notice."""


def small_image_network(name: str) -> Case:
    """A network of the zoo for a small image, and one such image."""
    model = small_network(name)
    [image] = model.graph.input
    return Case(name, model, [{image.name: small_image(1)}])


def free_network(name: str) -> Case:
    """A network with free sizes, with few layers, and data of several sizes."""
    network = networks.FREE[name]
    model: onnx.ModelProto = network.build(0, **network.small)
    feeds = []
    for run in range(RUNS):
        feed = network.inputs(model, {symbol: numbers[run] for symbol, numbers in network.sizes.items()}, run)
        if "lengths" in feed:  # of sequences: none is longer than there are steps
            feed["lengths"] = np.minimum(feed["lengths"] + 1, feed["source"].shape[1]).astype(feed["lengths"].dtype)
        feeds.append(feed)
    return Case(name, model, feeds)


MODELS: dict[str, Callable[[str], Case]] = {**dict.fromkeys(IMAGES, small_image_network), **dict.fromkeys(SEQUENCES, free_network)}
"""What makes each network, by its name."""


def model_of(name: str) -> Case:
    """The network of that name. Raises KeyError for an unknown one."""
    return MODELS[name](name)


def digest(arrays: Iterable[np.ndarray]) -> str:
    """A digest of types, shapes and bits of arrays; every NaN counts as the same one, since instructions differ in its sign and payload."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.name}{array.shape}".encode())
        found.update(without_payloads(array).tobytes())
    return found.hexdigest()[:16]


def without_payloads(array: np.ndarray) -> np.ndarray:
    """The array with each NaN replaced by the same one."""
    if array.dtype.kind in "biu":
        return array
    return np.where(array == array, array, np.array(np.nan, array.dtype))


def outputs_of(case: Case, target: str, folder: Path, threads: int = 1) -> list[np.ndarray]:
    """The outputs of all runs of a case on a target: called directly if it is of this machine, else by a bundle that is built in `folder`."""
    if target in (*crossing.OTHERS, WASM):
        folder.mkdir(parents=True, exist_ok=True)
        return module_outputs(case, folder) if target == WASM else crossing.outputs_of(case, target, folder, threads=threads)
    options = {"target": target, **case.options}
    model = stepwell.compile(case.model, threads=threads, cache=False, **options)
    return [array for feed in case.feeds for array in model.run(feed).values()]


def module_outputs(case: Case, folder: Path) -> list[np.ndarray]:
    """The outputs of all runs of a case by a module of WebAssembly, which has one thread."""
    made = stepwell.bundle(case.model, folder / case.name, prefix=case.name, target=WASM, **case.options)
    [runs] = node_bundles.run_in_node([(made, case.feeds)], folder)
    outputs: list[np.ndarray] = []
    for run in runs:
        assert isinstance(run, dict), f"{case.name}: {run}"
        outputs += run.values()
    return outputs


def reproducible(case: Case) -> Case:
    """The case compiled for reproducible results, by one program for all sizes."""
    return Case(case.name, case.model, case.feeds, {**case.options, "reproducible": True, "specialise": "never"})


def golden() -> dict[str, str]:
    """The digests by name of the network."""
    found: dict[str, str] = json.loads(DIGESTS.read_text())
    return found


def write_golden() -> None:
    """Write the digests that this machine finds."""
    made = {name: digest(outputs_of(reproducible(model_of(name)), "host", DIGESTS.parent)) for name in GOLDEN}
    write_atomically(DIGESTS, json.dumps(made, indent=2) + "\n")


def op_differences(batch: Sequence[native_ops.Instance], targets: Sequence[str], threads: Sequence[int]) -> Iterator[str]:
    """A text for each case of an op whose results differ between targets or threads. Cases that need libm are left out."""
    try:
        runs = {(target, count): out for target in targets for count, out in _op_outputs(batch, target, threads)}
    except UnsupportedError:
        if len(batch) > 1:
            half = len(batch) // 2
            yield from op_differences(batch[:half], targets, threads)
            yield from op_differences(batch[half:], targets, threads)
        return
    at = 0
    for single in batch:
        count = len(single.expected)
        found = {key: digest(meaningful(single.mnemonic, out[at : at + count])) for key, out in runs.items()}
        if len(set(found.values())) > 1:
            yield f"{single}: " + ", ".join(f"{target} on {count} {bits}" for (target, count), bits in found.items())
        at += count


def _op_outputs(batch: Sequence[native_ops.Instance], target: str, threads: Sequence[int]) -> Iterator[tuple[int, list[np.ndarray]]]:
    """The results of cases in one model, by number of threads."""
    text, weights = native_ops.module_of(batch)
    model = lowering.read_ir(text, "graph", weights, target=target, name="ops", disable=native_ops.WAYS[batch[0].way].disable, reproducible=True)
    artifact = build.make_artifact(lowering.descend(model, "affine", keep=False), None, None)
    arrays = [a for single in batch for n, a in enumerate(single.arrays) if n not in single.constants]
    inputs = {info.name: array for info, array in zip(artifact.inputs, arrays, strict=True)}
    for count in threads:
        yield count, list(assemble(artifact, threads=count, snapshots={}, timings={"obj": 0.0}).run(inputs).values())
