"""Random graphs of all operators, one after another, each examined in a watched process; what they were made of and what was found."""

import re
from collections import Counter
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
from guarded import TARGETS
from onnx import helper
from random_graphs.net import Case, Net
from random_graphs.operators import OPERATORS, grow
from random_graphs.shrinking import MOST_TRIES, shrink
from watchdog import Watchdog

from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.support.files import write_atomically
from stepwell.passes.framework.registry import passes
from stepwell.pipelines.pipeline import Pipeline

SECONDS = 120.0  # for one graph
FINE = ("right", "refused")
EXAMINE = "random_graphs.examination:examine"


class Campaign:
    """Graphs of operators until somebody stops asking for more."""

    def __init__(self, folder: Path, dog: Watchdog, only: str | None = None) -> None:
        """`only` names an operator that each graph is to have."""
        self.folder, self.dog, self.only = folder, dog, only
        self.count = 0
        self.findings: list[str] = []
        self.nodes: Counter[tuple[str, str]] = Counter()
        """How many nodes were compiled, run and right, by operator and element type."""
        self.declined: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.aside: Counter[str] = Counter()
        """Why ONNX Runtime was not asked."""

    def attempt(self, seed: int) -> bool:
        """Examine the graph of a seed; whether it is right. One that is not is made small, saved and printed."""
        net, case = graph(seed, self.only)
        self.declined.update(net.declined)
        if case is None:
            return True
        save(case, self.folder / "running.onnx")
        kind, text = self.verdict(case)
        self.count += 1
        if kind in FINE:
            (self.refused if kind == "refused" else self.aside)[text.split(";")[0][:100]] += 1
            if kind == "right":
                self.nodes.update(net.counts)
            return True
        try:
            small = shrink(case, lambda c: alike(self.verdict(c), (kind, text)), MOST_TRIES)
        except StepwellError:  # where the importer refuses it, no node's values are known
            small = case
        kind, text = self.verdict(small) if small is not case else (kind, text)
        path = self.folder / f"graph-{seed}.onnx"
        save(small, path)
        self.findings.append(f"{kind}: {text}\n{described(small)}\n{reproduction(small, path, kind)}")
        print(f"graph of seed {seed}: {self.findings[-1]}", flush=True)
        return False

    def verdict(self, case: Case) -> tuple[str, str]:
        """What the examination found first."""
        outcome = self.dog.call(EXAMINE, case, seconds=SECONDS)
        if outcome.kind != "returned":
            phases = [line for line in outcome.said.splitlines() if line.startswith("phase: ")]
            return outcome.kind, f"{phases[-1] if phases else 'phase: none'}; {str(outcome)[-3000:]}"
        first = outcome.value[0]
        return first["kind"], first["text"]

    def report(self) -> str:
        """What was covered, and what was left out and why."""
        types = sorted({dtype for _, dtype in self.nodes})
        width = max(map(len, types), default=0) + 2
        lines = ["", f"{'nodes that were right':28}" + "".join(f"{t:>{width}}" for t in types)]
        for name in sorted({name for name, _ in self.nodes}):
            lines.append(f"{name:28}" + "".join(f"{self.nodes[name, t] or '':>{width}}" for t in types))
        never = sorted(set(OPERATORS) - {name for name, _ in self.nodes})
        lines += ["", f"operators without a node that was right: {', '.join(never) or 'none'}"]
        for title, counter in (("graphs that were refused", self.refused), ("ONNX Runtime was not asked or gave nothing", self.aside)):
            lines += ["", title, *(f"{n:6}  {reason}" for reason, n in counter.most_common(15) if reason)]
        most = Counter({f"{name}: {reason[:100]}": n for (name, reason), n in self.declined.items()})
        lines += ["", "nodes that were not added", *(f"{n:6}  {reason}" for reason, n in most.most_common(15))]
        return "\n".join(lines)


@cache
def switches() -> list[str]:
    """The switches of passes of ours: other tests of a process may have loaded plugins, which the process that compiles has not."""
    return [switch for switch, name in Pipeline.default().switches().items() if passes()[name].__module__.startswith("stepwell.")]


def graph(seed: int, only: str | None = None) -> tuple[Net, Case | None]:
    """The graph of a seed, and how it is compiled; None if nothing fitted."""
    net = Net(seed, special=seed % 6 == 5)
    grow(net, only)
    if not net.nodes:
        return net, None
    names = sorted(switches())
    disable = {str(net.r.choice(names))} if net.r.integer(0, 2) == 0 else set()
    # Only strict code keeps what is not finite in its place (docs/numerics.md).
    strict = net.special or net.r.integer(0, 7) == 0
    return net, net.case(str(net.r.choice(TARGETS)), sorted(disable), strict=strict)


def alike(found: tuple[str, str], wanted: tuple[str, str]) -> bool:
    """Whether a smaller case fails in the same way: of a kind, and for what compilers say, with the same first words."""
    return found[0] == wanted[0] and (found[0] != "compiler" or _words(found[1]) == _words(wanted[1]))


def _words(text: str) -> str:
    """The beginning of a message without its numbers."""
    return re.sub(r"[0-9]+(x[0-9a-f]+)?", "", text)[:60]


def save(case: Case, path: Path) -> None:
    """Write the model, and its inputs next to it."""
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **case.inputs)
    write_atomically(path, case.model)
    write_atomically(path.with_suffix(".npz"), buffer.getvalue())


def described(case: Case) -> str:
    """The graph in lines of text."""
    model = onnx.load_from_string(case.model)
    types = {name: f"{array.dtype}{list(array.shape)}" for name, array in case.inputs.items()}
    types |= {t.name: f"{helper.tensor_dtype_to_np_dtype(t.data_type)}{list(t.dims)}" for t in model.graph.initializer}
    options = [f"target {case.target}", *(f"without {name}" for name in case.disable), *["strict"] * case.strict]
    lines = [f"  opset {model.opset_import[0].version}, {', '.join(options)}"]
    for node in model.graph.node:
        operands = ", ".join(f"{name}: {types[name]}" if name in types else name for name in node.input)
        attributes = ", ".join(f"{a.name}={helper.get_attribute_value(a)}" for a in node.attribute)
        lines.append(f"  {', '.join(node.output)} = {node.op_type}({operands}) {attributes}".rstrip())
    return "\n".join([*lines, f"  outputs: {', '.join(value.name for value in model.graph.output)}"])


def reproduction(case: Case, path: Path, kind: str) -> str:
    """The command that runs a saved case."""
    disabled = "".join(f" --disable {name}" for name in case.disable) + " --strict" * case.strict
    against = "onnxruntime" if kind == "onnxruntime" else "levels"
    return f"stepwell run {path} --input {path.with_suffix('.npz')} --target {case.target}{disabled} --check {against} --no-cache"
