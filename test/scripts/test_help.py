"""Every script shows its help where the packages of extras are missing, and installs nothing for that; what zoo.py writes is used."""

import re
import subprocess
import sys
from pathlib import Path

import onnx

from benchmark.models import find

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
EXTRAS = (
    "onnxruntime", "openvino", "matplotlib", "hypothesis", "mlxtend", "rapidocr_onnxruntime", "magika", "sklearn", "lit", "filecheck", "mpmath",
    "pytest", "jinja2", "xdist", "ruff", "mypy",
)  # fmt: skip
PROGRAM = """
import contextlib, io, os, runpy, sys
def refuse(*arguments, **more):
    raise AssertionError("it would install")
os.execve = refuse
sys.modules.update(dict.fromkeys(sys.argv[2].split(",")))
for script in sys.argv[3:]:
    sys.argv, out = [script, "--help"], io.StringIO()
    sys.path[0] = os.path.dirname(script)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            runpy.run_path(script, run_name="__main__")
        how = "no exit"
    except SystemExit as end:
        how = end.code or 0
    except BaseException as error:
        how = f"{type(error).__name__}: {error}"
    if how != 0 or len(out.getvalue()) < 100:
        print(script, how, out.getvalue()[-300:])
"""


def scripts(missing: tuple[str, ...], *paths: Path) -> str:
    """What is wrong with the help of scripts where modules are missing."""
    command = [sys.executable, "-c", PROGRAM, "", ",".join(missing), *map(str, paths)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return ended.stdout + ended.stderr


def test_help_needs_no_extra() -> None:
    of_programs = [path for path in sorted(SCRIPTS.glob("*.py")) if {"argparse", "__main__"} <= set(re.findall(r"\w+", path.read_text()))]
    assert len(of_programs) > 15
    assert scripts(EXTRAS, *of_programs) == ""


def test_help_of_what_makes_an_environment_needs_none() -> None:
    names = ("bench.py", "quantize_real.py", "edit_to_answer.py", "fit_polynomials.py")
    assert scripts((*EXTRAS, "stepwell"), *(SCRIPTS / name for name in names)) == ""


def test_networks_that_zoo_has_written_are_used(tmp_path: Path) -> None:
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    onnx.save(model, tmp_path / "squeezenet.onnx")
    assert [network.path for network in find(["squeezenet"], tmp_path)] == [tmp_path / "squeezenet.onnx"]
