"""Runs bundles for WebAssembly in one process of Node."""

import json
import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

Feed = Mapping[str, np.ndarray]
RUNNER = Path(__file__).with_name("node_bundles.mjs")


@dataclass(frozen=True)
class NodeError:
    """An exception of a run, or of opening."""

    name: str
    kind: str
    message: str


def needs_node() -> str:
    """Node; skips the test where it or the compiler for modules is missing."""
    if (reason := why_no_modules()) is not None:
        pytest.skip(reason)
    return "node"


def why_no_modules() -> str | None:
    """Why modules cannot be built and run on this machine; None if they can."""
    missing = [name for name in ("node", "clang", "wasm-ld") if shutil.which(name) is None]
    return f"there is no {' or '.join(missing)} (apt install nodejs clang lld wasi-libc libclang-rt-dev-wasm32)" if missing else None


def run_in_node(bundles: Sequence[tuple[Path, Sequence[Feed | None]]], folder: Path) -> list[list[dict[str, np.ndarray] | NodeError]]:
    """The outputs of the runs of each bundle, a folder, or the errors. None instead of inputs resets the state, and has no outputs."""
    node, request = needs_node(), []
    for number, (bundle, feeds) in enumerate(bundles):
        runs: list[list[dict[str, object]] | None] = []
        offset = 0
        with (folder / f"{number}.in").open("wb") as file:
            for feed in feeds:
                given = []
                for name, array in (feed or {}).items():
                    given.append({"name": name, "dtype": array.dtype.name, "shape": array.shape, "offset": offset, "count": array.size})
                    file.write(array.tobytes())
                    offset += array.nbytes
                runs.append(None if feed is None else given)
        (module,) = bundle.glob("*.mjs")
        request.append({"module": str(module), "data": str(folder / f"{number}.in"), "out": str(folder / f"{number}.out"), "runs": runs})
    (folder / "request.json").write_text(json.dumps(request))
    done = subprocess.run([node, str(RUNNER), str(folder / "request.json")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    return [[_outputs(answer, folder / f"{number}.out") for answer in of_bundle] for number, of_bundle in enumerate(answers)]


def _outputs(answer: list[dict[str, object]] | dict[str, str], file: Path) -> dict[str, np.ndarray] | NodeError:
    if isinstance(answer, dict):
        return NodeError(**answer)
    data, arrays = file.read_bytes(), {}
    for output in answer:
        shape, dtype, offset = output["shape"], np.dtype(str(output["dtype"])), output["offset"]
        assert isinstance(shape, list)
        assert isinstance(offset, int)
        arrays[str(output["name"])] = np.frombuffer(data, dtype, math.prod(shape), offset).reshape(shape)
    return arrays
