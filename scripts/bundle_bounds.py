#!/usr/bin/env python3
"""Measure what bundles must keep to: sizes, symbols, bits, the cost of opening, memory of many callers, and other libraries in the process.

    .venv/bin/python scripts/bundle_bounds.py [--only PART ...] [--zoo DIR]

The parts: `size` (the library of digits, stripped), `symbols` (what it needs and shows), `bits` (bundles of twelve networks, a decoder with a cache,
an encoder with free sizes and a model with a loop, against `model.run`), `opening` (vgg19's bundle, before the first run), `callers` (resident memory
of 8 contexts of resnet50v1) and `together` (two bundles and PyTorch, if it is installed, in one process). Sizes and bits do not depend on other work
on the machine. The last three run in processes of their own. The exit status is 1 if a bound is exceeded.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import environment

import stepwell
from stepwell.cli.display import print_table

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from stepwell import DynamicModel

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
DIGITS_SHAPE = {"image": (1, 1, 8, 8)}
SIZE = 64 << 10
SYSTEM = frozenset({"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})
OPENING_SECONDS = 0.05
CALLERS, BESIDE = 8, 10 << 20
ROUNDS = 3
TOKENS = (7, 1, 1, 1, 3, 1, 1, 40, 1, 1)
LOOP = """<ir_version: 9, opset_import: ["" : 18]>
loop (float[n, 8] x, int64 rounds) => (float[n, 8] y, float[r, n, 8] all) {
  yes = Constant<value = bool {1}> ()
  scale = Constant<value = float {0.7}> ()
  y, all = Loop(rounds, yes, x) <body = step (int64 i, bool on, float[n, 8] v) => (bool next, float[n, 8] after, float[n, 8] kept) {
    less = Mul(v, scale)
    after = Tanh(less)
    kept = Identity(after)
    next = Identity(on)
  }>
}"""


@dataclass(frozen=True)
class Found:
    """One measurement beside its bound."""

    what: str
    measured: str
    bound: str
    holds: bool


def size(folder: Path, _: Path) -> Iterator[Found]:
    """The library of digits without symbols."""
    library = digits(folder)
    strip = shutil.which("strip")
    if strip is None:
        yield Found("digits: library, stripped", "there is no strip", f"{SIZE} B", False)
        return
    subprocess.run([strip, "-o", str(folder / "stripped.so"), str(library)], check=True)
    found = (folder / "stripped.so").stat().st_size
    yield Found("digits: library, stripped", f"{found} B", f"{SIZE} B", found <= SIZE)


def symbols(folder: Path, _: Path) -> Iterator[Found]:
    """The libraries that it needs, as `ldd` has them, and the names that it shows, as `nm -D` has them."""
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    library = digits(folder)
    header = library.with_name("digits.h").read_text()
    with library.open("rb") as file:
        read = ELFFile(file)
        dynamic, table = read.get_section_by_name(".dynamic"), read.get_section_by_name(".dynsym")
        assert isinstance(dynamic, DynamicSection)
        assert isinstance(table, SymbolTableSection)
        needed = {str(getattr(tag, "needed", "")) for tag in dynamic.iter_tags("DT_NEEDED")}
        shown = {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name}
    yield Found("digits: needs", ", ".join(sorted(needed)), "the C library, maths, threads", needed <= SYSTEM)
    unknown = sorted(name for name in shown if f" {name}(" not in header and f"*{name}(" not in header)
    yield Found("digits: shows", f"{len(shown)} names, {len(unknown)} not in the header", "names of the header", bool(shown) and not unknown)


def bits(folder: Path, zoo: Path) -> Iterator[Found]:
    """Outputs of bundles against those of the models that they were made of."""
    import numpy as np
    import onnx

    from benchmark.models import KNOWN, find
    from networks import FREE, image

    for network in find(KNOWN, zoo):
        fixed = stepwell.compile(network.path, threads=1)
        (info,) = fixed.inputs
        shape = [size for size in info.shape if isinstance(size, int)]
        takes_image = shape == [1, 3, 224, 224]
        arrays = [image(n) if takes_image else np.random.default_rng(n).standard_normal(shape, np.float32) for n in range(ROUNDS)]
        yield compared(network.name, network.path, folder, [{info.name: array} for array in arrays], fixed.run)
    gpt, encoder, loop = FREE["gpt"], FREE["encoder"], onnx.parser.parse_model(LOOP)
    decoder = gpt.build(0, **gpt.small)
    bound = general(decoder).bind()
    tokens = [{"input_ids": np.random.default_rng(number).integers(0, gpt.below["input_ids"], (2, count))} for number, count in enumerate(TOKENS)]
    yield compared("gpt, small, with its cache", decoder, folder, tokens, bound.run, dict(bound.pairs))
    source = encoder.build(0, **encoder.small)
    sizes = [{name: values[at] for name, values in encoder.sizes.items()} for at in range(len(TOKENS))]
    feeds = [encoder.inputs(source, some, at) for at, some in enumerate(sizes)]
    yield compared("encoder, small, with free sizes", source, folder, feeds, general(source).run)
    rows = [(3, 5), (1, 0), (9, 40)]
    feeds = [{"x": np.random.default_rng(n).standard_normal((n, 8), np.float32), "rounds": np.array(rounds)} for n, rounds in rows]
    yield compared("a loop with free sizes", loop, folder, feeds, general(loop).run)


def general(source: "onnx.ModelProto") -> "DynamicModel":
    """The program for all sizes of a model, as in a bundle."""
    model = stepwell.compile(source, threads=1, specialise="never")
    assert isinstance(model, stepwell.DynamicModel)
    return model


def compared(
    what: str, source: "Path | onnx.ModelProto", folder: Path, feeds: "list[dict[str, np.ndarray]]",
    run: "Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]]", bind: Mapping[str, str] | None = None,
) -> Found:  # fmt: skip
    """The number of arrays of a bundle that differ from those of `run`, in types, shapes or bits."""
    made = stepwell.bundle(source, folder / "compared", prefix="net", kinds=("shared",), bind=bind)
    bundle = stepwell.load(made, threads=1)
    count = different = 0
    for feed in feeds:
        wanted, got = run(feed), bundle.run(feed)
        for name, array in got.items():
            other = wanted[name]
            count += 1
            different += (array.dtype, array.shape, array.tobytes()) != (other.dtype, other.shape, other.tobytes())
    bundle.close()
    shutil.rmtree(made)
    return Found(what, f"{different} of {count} arrays differ", "0", count > 0 and different == 0)


CHILD = """
import json, os, sys, time
import numpy as np
from pathlib import Path
from benchmark.system import resident
from stepwell.bundling.interface import ALLOCATE, Interface, Tensor
from stepwell.bundling.manifest import read_manifest
from stepwell.dialects.support.buffers import address

def in_memory(mapped):
    '''Bytes in memory of a file that this process maps.'''
    parts, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = line.endswith(str(mapped))
        elif inside and line.startswith("Rss:"):
            parts += int(line.split()[1]) << 10
    return parts

folder, callers = Path(sys.argv[1]).resolve(), int(sys.argv[2])
manifest = read_manifest(folder)
weights = folder / manifest.weights.file
before, start = resident(), time.perf_counter()
interface = Interface(folder / f"lib{manifest.name}.so", manifest.name)
model = interface.open(os.fsencode(weights), verify=True, copied=False)
seconds = time.perf_counter() - start
found = {"seconds": seconds, "opened": resident() - before, "touched": in_memory(weights), "weights": manifest.weights.bytes}
contexts = [interface.context(model, 1, ALLOCATE(0)) for _ in range(callers)]
for context in contexts:
    sides, arrays = [], []
    for entries in (manifest.inputs, manifest.outputs):
        side = (Tensor * len(entries))()
        for tensor, entry in zip(side, entries):
            arrays.append(np.ones(entry.shape, entry.info.dtype))
            tensor.data, tensor.bytes, tensor.dtype, tensor.rank = address(arrays[-1]), arrays[-1].nbytes, entry.onnx_dtype, arrays[-1].ndim
            tensor.shape[: arrays[-1].ndim] = arrays[-1].shape
        sides.append(side)
    status = interface.run(context, *sides)
    if status:
        raise interface.error(status, context)
found |= {"run": resident() - before, "read": in_memory(weights)}
found["contexts"] = sum(interface.context_bytes(context) for context in contexts)
print(json.dumps(found))
"""


def child(folder: Path, callers: int) -> dict[str, float]:
    """Open a bundle in a process of its own, and run it once in each of so many contexts; returns seconds and bytes."""
    paths = [str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", CHILD, str(folder), str(callers)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def of_zoo(name: str, folder: Path, zoo: Path) -> Path:
    """The bundle of a network."""
    from benchmark.models import find

    (network,) = find([name], zoo)
    return Path(stepwell.bundle(network.path, folder / name, prefix=name, kinds=("shared",)))


def opening(folder: Path, zoo: Path) -> Iterator[Found]:
    """The time of loading the library and opening the model, and the memory that this takes."""
    found = child(of_zoo("vgg19", folder, zoo), 1)
    least = min(found["seconds"], *(child(folder / "vgg19", 0)["seconds"] for _ in range(4)))
    yield Found("vgg19: load the library and open", f"{least * 1e3:.2f} ms", f"{OPENING_SECONDS * 1e3:.0f} ms", least <= OPENING_SECONDS)
    pages = f"{found['touched'] / 1e3:.0f} kB of weights (after a run {found['read'] / 1e3:.0f} of {found['weights'] / 1e3:.0f})"
    is_lazy = found["touched"] < 1 << 20 and found["read"] >= found["weights"]
    yield Found("vgg19: memory after opening", f"{found['opened'] / 1e3:.0f} kB, {pages}", "pages are read lazily", is_lazy)


def callers(folder: Path, zoo: Path) -> Iterator[Found]:
    """Resident memory of many contexts, each of which has run."""
    found = child(of_zoo("resnet50v1", folder, zoo), CALLERS)
    bound = found["weights"] + found["contexts"] + BESIDE
    what = f"resnet50v1: memory of {CALLERS} contexts"
    parts = f"{found['weights'] / 1e6:.1f} MB of weights + {found['contexts'] / 1e6:.1f} of contexts + {BESIDE / 1e6:.1f}"
    yield Found(what, f"{found['run'] / 1e6:.1f} MB", parts, found["run"] <= bound)


TOGETHER = """
import importlib.util, sys
import numpy as np
import stepwell
torch = None
if importlib.util.find_spec("torch"):
    import torch
image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
first, second = (stepwell.load(folder, threads=2) for folder in sys.argv[1:])
results = []
for _ in range(200):
    if torch is not None:
        (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item()
    results += [model(image)[0].tobytes() for model in (first, second)]
assert len(set(results)) == 1
print("with PyTorch " + torch.__version__ if torch is not None else "without PyTorch, which is not installed")
"""


def together(folder: Path, _: Path) -> Iterator[Found]:
    """Two bundles and PyTorch in one process, on two threads each."""
    names = [stepwell.bundle(DIGITS, folder / name, prefix=name, shapes=DIGITS_SHAPE, kinds=("shared",)) for name in ("one", "two")]
    done = subprocess.run([sys.executable, "-c", TOGETHER, *map(str, names)], capture_output=True, text=True, check=False)
    said = (done.stdout or done.stderr).strip().splitlines() or [f"status {done.returncode}"]
    yield Found("two bundles in one process", f"{said[-1]}", "200 runs, equal bits", done.returncode == 0)


PARTS: Mapping[str, Callable[[Path, Path], Iterator[Found]]] = {
    "size": size, "symbols": symbols, "bits": bits, "opening": opening, "callers": callers, "together": together,
}  # fmt: skip


def digits(folder: Path) -> Path:
    """The shared library of a bundle of digits, made at the first call."""
    library = folder / "digits" / "libdigits.so"
    if not library.exists():
        stepwell.bundle(DIGITS, folder / "digits", shapes=DIGITS_SHAPE, kinds=("shared",))
    return library


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table; 0 if all bounds hold, 1 if not, 2 for wrong usage (argparse)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--zoo", type=Path, default=ROOT / "build" / "zoo", metavar="DIR", help="where the networks' files are kept (build/zoo)")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="stepwell-bounds-") as temporary:
        for part in options.only:
            found += PARTS[part](Path(temporary), options.zoo)
    print_table(["", "measured", "bound", ""], [[f.what, f.measured, f.bound, "" if f.holds else "EXCEEDED"] for f in found])
    return int(not all(f.holds for f in found))


if __name__ == "__main__":
    environment.need(__doc__, "test", "onnx", "elftools")
    sys.exit(main())
