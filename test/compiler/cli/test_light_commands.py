"""Help, versions and errors in options come without numpy, onnx, the bindings or the passes; what help lists is what those say."""

import json
import os
import re
import subprocess
import sys

import pytest
from commands import Commands

from stepwell.backends.llvm_cpu.phases import SWITCHES
from stepwell.backends.registry import find_backend
from stepwell.cli.compile import DEFAULT_EMITS, DEFAULT_FILES, emits
from stepwell.cli.main import COMMANDS
from stepwell.passes.framework.registry import find_pass
from stepwell.pipelines.pipeline import Pipeline
from stepwell.pipelines.routes import DEFAULT

HELP = [
    "stepwell --help", "stepwell --version", "stepwell-opt --help", "stepwell-opt --version", "stepwell tuning show --help",
    *(f"stepwell {name} --help" for name in COMMANDS),
]  # fmt: skip
WRONG = [
    "stepwell", "stepwell dance", "stepwell run", "stepwell run m.onnx --nonsense", "stepwell run m.onnx --threads 0",
    "stepwell run m.onnx --from attic", "stepwell run m.onnx --plot x.png", "stepwell run m.onnx --sweep --save x.npz",
    "stepwell run m.onnx --sweep --plot x.txt", "stepwell run m.onnx --sweep --from graph", "stepwell run m.onnx --check magic",
    "stepwell run m.mlir", "stepwell run m.onnx --weights w", "stepwell run m.mlir --from graph --shape x=1", "stepwell run m.onnx --shape x",
    "stepwell run m.onnx --size-hint n=0", "stepwell run m.onnx --target abacus", "stepwell run m.onnx --backend abacus",
    "stepwell run m.onnx --limit money=1", "stepwell compile m.onnx", "stepwell compile m.onnx --emit gold", "stepwell compile m.onnx --emit obj",
    "stepwell compile m.onnx --emit graph --plot x", "stepwell inspect", "stepwell inspect m.onnx --strict",
    "stepwell inspect m.onnx --target abacus --memory", "stepwell quantize m.onnx -o q.onnx", "stepwell quantize m.onnx --data d.npz",
    "stepwell quantize m.onnx -o q.onnx --weights int4 --data d.npz", "stepwell quantize m.onnx -o q.onnx --data d.npz --method guess",
    "stepwell quantize m.onnx -o none/q.onnx --data d.npz", "stepwell pipeline --shape x=1", "stepwell pipeline m.onnx -o p.txt",
    "stepwell pipeline --precision f8", "stepwell bisect m.onnx --from llvm", "stepwell bisect m.onnx --seed -1", "stepwell diff a.mlir",
    "stepwell cache burn", "stepwell tuning", "stepwell tuning dance", "stepwell tuning import", "stepwell tuning prune",
    "stepwell tuning prune --keep many", "stepwell tuning show --target abacus",
    "stepwell-opt --limit", "stepwell-opt --mlir-elide-elementsattrs-if-larger -1", "stepwell-opt a.mlir b.mlir",
]  # fmt: skip

# Each command in a forked child of a process that has imported nothing: its status, the last line it wrote, and what it imported.
PROGRAM = """
import json, os, sys
at_start = set(sys.modules)
results = []
for line in json.loads(sys.argv[1]):
    pid = os.fork()
    if pid == 0:
        log = os.open("log", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        program, *arguments = line.split()
        if program == "stepwell":
            from stepwell.cli.main import main
        else:
            from stepwell.cli.opt import main
        status = main(arguments)
        with open("report", "w") as report:
            json.dump([status, open("log").read(), sorted(set(sys.modules) - at_start)], report)
        os._exit(0)
    os.waitpid(pid, 0)
    results.append(json.load(open("report")))
    os.remove("report")
print(json.dumps(results))
"""
LIGHT_PASSES = {"stepwell.passes", "stepwell.passes.framework", "stepwell.passes.framework.levels"}
SLOW = ("email", "importlib.metadata")
"""Modules of Python that take as long to import as some packages."""


def is_heavy(module: str) -> bool:
    """Whether a module is of another package, one of our passes, or takes long."""
    package = module.partition(".")[0]
    ours = package == "stepwell" and (not module.startswith("stepwell.passes") or module in LIGHT_PASSES)
    return module.startswith(SLOW) or not (ours or package in sys.stdlib_module_names)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, list[str]]]:
    """The status of each command, what it wrote, and the modules that it imported."""
    folder = tmp_path_factory.mktemp("light")
    environment = {**os.environ, "STEPWELL_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", PROGRAM, json.dumps([*HELP, *WRONG])]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return {line: (status, text, modules) for line, (status, text, modules) in zip([*HELP, *WRONG], json.loads(ended.stdout), strict=True)}


def test_the_commands_end_as_they_should(results: dict[str, tuple[int, str, list[str]]]) -> None:
    other = [f"{line}: {results[line][:2]}" for line in HELP if results[line][0] != 0]
    other += [f"{line}: {results[line][:2]}" for line in WRONG if results[line][0] != 2 or "error: " not in results[line][1]]
    assert other == []


def test_nothing_heavy_is_imported(results: dict[str, tuple[int, str, list[str]]]) -> None:
    heavy = {line: found for line, (_, _, modules) in results.items() if (found := [module for module in modules if is_heavy(module)])}
    assert heavy == {}
    assert all("stepwell.cli.common" in modules for _, _, modules in results.values())  # the record is one


def test_help_lists_the_switches_of_the_default_pipeline(results: dict[str, tuple[int, str, list[str]]]) -> None:
    classes = {switch: find_pass(name) for switch, name in Pipeline.default().switches().items()}  # other tests may have loaded plugins
    assert tuple(switch for switch, cls in classes.items() if cls is not None and cls.__module__.startswith("stepwell.")) == SWITCHES
    text = {name: re.sub(r"-\s+", "-", results[f"stepwell {name} --help"][1]) for name in ("run", "compile", "inspect", "pipeline", "bisect")}
    without = [name for name, said in text.items() if ", ".join(SWITCHES) not in re.sub(r"\s+", " ", said)]
    assert without == []


def test_help_lists_what_the_default_backend_writes() -> None:
    backend = find_backend(DEFAULT)
    assert emits(backend) == DEFAULT_EMITS
    assert tuple(backend.files()) == DEFAULT_FILES


def test_a_command_behind_an_option_has_its_own_options(commands: Commands) -> None:
    ended = commands.stepwell("--version", "run", "m.onnx", "--repeat", "2")
    assert (ended.status, ended.err, ended.out.split()[0]) == (0, "", "stepwell")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")
@pytest.mark.parametrize(("given", "expected"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, min(2, os.cpu_count() or 1))])
def test_a_command_starts_no_threads_for_products_in_numpy(given: dict[str, str], expected: int) -> None:
    body = "import os, numpy; print(len(os.listdir('/proc/self/task')))"
    code = f"from stepwell.cli.common import run_program\ndef body(arguments):\n    {body}\n    return 0\nrun_program('stepwell', body, None)"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**environment, **given}, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, str(expected)), ended.stderr
