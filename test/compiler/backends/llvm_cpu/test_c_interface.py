"""A program in C runs emitted objects: it brings the memory, and answers what code asks (docs/sizes.md)."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import stepwell
from stepwell.backends.registry import find_backend
from stepwell.dialects.core.runtime_interface import VERSION
from stepwell.dialects.core.size_table import Status, Verdict
from stepwell.pipelines.lowered import Lowered

COMPILER = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc, gcc or clang)")
RANDOM = np.random.default_rng(3)
WEIGHTS = RANDOM.standard_normal((6, 6), np.float32) / 3
SIZES = """
<ir_version: 9, opset_import: ["" : 18]>
sizes (float[n, 6] x, int64 rounds, int64 at) => (float[n, 6] y, float[d, places] z, float[6] row) {
  yes = Constant<value = bool {1}> ()
  y = Loop(rounds, yes, x) <body = step (int64 i, bool on, float[n, 6] v) => (bool next, float[n, 6] after) {
    next = Identity(on)
    product = MatMul(v, w)
    after = Tanh(product)
  }>
  row = Gather(x, at)
  indices = NonZero(x)
  z = Cast<to = 1>(indices)
}"""


def weighted(text: str, weights: np.ndarray) -> ModelProto:
    made: ModelProto = parser.parse_model(text)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return made


def build(folder: Path, lowered: Lowered, program: Path, **numbers: int) -> Path:
    """Write object, header and weights of a model, and make a program of them; returns its path."""
    backend = find_backend("llvm")
    (folder / "model.h").write_text(backend.translations()["header"](lowered))
    (folder / "weights").write_bytes(backend.files()["weights"](lowered))
    (folder / "model.o").write_bytes(backend.files()["obj"](lowered))
    defines = [f"-D{name}={number}" for name, number in numbers.items()]
    command = [str(COMPILER), "-std=c11", "-Wall", "-Wextra", "-Werror", *defines, f"-I{folder}", str(program), str(folder / "model.o"), "-lm"]
    done = subprocess.run([*command, "-o", str(folder / "program")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"


def test_a_program_in_c_brings_memory_for_sizes_and_ends_loops(tmp_path: Path) -> None:
    lowered = stepwell.lower(weighted(SIZES, WEIGHTS), "llvm", specialise="never")
    (segment,) = lowered.info.segments
    ((slot, _),) = segment.outputs
    program = build(tmp_path, lowered, Path(__file__).parent / "runner.c", SEGMENT=segment.start, SLOTS=len(segment.slots), OUTPUT=slot)

    def run(
        x: np.ndarray, rounds: int, at: int = 0, *, most: int = 100, version: int = VERSION, n: int | None = None
    ) -> tuple[list[int], list[np.ndarray]]:
        """The statuses of sizes and run with other numbers, and the results."""
        x.tofile(tmp_path / "x")
        command = [program, *map(str, (len(x) if n is None else n, rounds, most, version, at)), tmp_path / "x", tmp_path / "weights"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [int(number) for number in said[0].split()], [np.array(line.split(), np.float32) for line in said[1:]]

    for n, rounds in ((3, 4), (1, 0), (17, 9)):
        x = RANDOM.integers(-1, 2, (n, 6)).astype(np.float32)
        expected = x
        for _ in range(rounds):
            expected = np.tanh(expected @ WEIGHTS)
        (sizes, workspace, status, asked, _), (y, z, row) = run(x, rounds, at=-n)
        assert (sizes, status) == (Status.OK, Status.OK)
        assert workspace % 64 == 0
        assert asked == len(range(1, rounds, 3))  # before the second round, then before each third
        np.testing.assert_allclose(y.reshape(n, 6), expected, atol=1e-6)
        np.testing.assert_array_equal(z.reshape(2, -1), np.nonzero(x))
        np.testing.assert_array_equal(row, x[0])
    x = np.ones((2, 6), np.float32)
    assert run(x, 9, most=4)[0][2:4] == [Status.STOPPED, 2]
    assert run(x, 9, version=VERSION + 1)[0][2:4] == [Status.INTERFACE, 0]
    assert run(x, 9, version=0)[0][2:4] == [Status.INTERFACE, 0]
    assert run(x, 1, n=-1)[0][0] == Status.NEGATIVE
    for at, code in ((2, 4), (-3, 5)):  # the code of an index says which it is
        assert run(x, 9, at)[0][2:] == [Verdict(Status.INDEX, 0).code, 3, code]
