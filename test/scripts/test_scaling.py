"""Graphs of thousands of nodes, deep and wide: they compile in a stack of a fixed depth, and give what ONNX's evaluator gives."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scaling
from command_server import started
from covering import by_day
from onnx.reference import ReferenceEvaluator

ROOT = Path(__file__).resolve().parents[2]
DEPTH = 160  # frames of Python that compiling takes at most, whatever the graph

# The bindings call back into Python, so that the depth at which an error is raised is that of the whole stack.
PROGRAM = f"""
import sys
import numpy as np
import scaling, stepwell

stepwell.compile(scaling.chain(9), cache=False)  # loads what there is to load, in imports inside imports
model = scaling.GRAPHS[sys.argv[1]](int(sys.argv[2]))
x = np.load(sys.argv[3])
frames, frame = 0, sys._getframe()
while frame is not None:
    frames, frame = frames + 1, frame.f_back
sys.setrecursionlimit(frames + {DEPTH})
compiled = stepwell.compile(model, cache=False)
result = compiled(x)[0]
np.save(sys.argv[4], result)
"""


FEW = {"chain": 900, "wide": 601, "shapes": 600, "constants": 1000, "weights": 300, "joined": 400, "distinct": 6}
"""Nodes: several times as many as there may be frames, where they follow one another."""
MANY = {"chain": 5000, "wide": 1201, "shapes": 1200, "constants": 5000, "weights": 1000, "joined": 600, "distinct": 20}


@pytest.mark.parametrize(("graph", "nodes"), by_day([*FEW.items(), *MANY.items()], [*FEW.items()]))
def test_no_recursion_over_the_graph(graph: str, nodes: int, tmp_path: Path) -> None:
    model = scaling.GRAPHS[graph](nodes)
    assert len(model.graph.node) >= nodes
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    np.save(tmp_path / "x.npy", x)
    command = started([sys.executable, "-c", PROGRAM, graph, str(nodes), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")])
    ended = subprocess.run(command, cwd=ROOT / "scripts", capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=2e-4, atol=1e-5 * np.abs(want).max())


def test_the_table_has_a_row_for_each_size(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "subprocess", SimpleNamespace(run=lambda command, **how: subprocess.run(started(command), **how)))
    scaling.table("shapes", [12, 24], None)
    header, first, second, growth, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["shapes", "nodes", "graph"]
    assert [row.split()[0] for row in (first, second, growth)] == ["12", "24", "exponent"]
    assert len({len(row.split()) for row in (first, second, growth)}) == 1
