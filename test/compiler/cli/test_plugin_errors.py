"""Mistakes in plugins: the message has the file and the line, without a traceback."""

import re
from pathlib import Path

import onnx
import pytest
from commands import process
from importing import floats, model, node

OPS = """
from dataclasses import dataclass

from stepwell.plugin import GraphOp, Operand, Pass, PatternPass, Pure, Result, layout_rule, lowering, onnx_rule, pattern, register_pass, schedule


class OddOp(GraphOp, name="odd", traits=[Pure]):
    "Odd."

    x: Operand
    result: Result

    @staticmethod
    def infer(x):
        return x


"""
MISTAKES = {
    "rule": "@onnx_rule('Odd', since=1, domain='test')\ndef odd(b, x):\n    return b.no_such_op(x)  # HERE\n",
    "rule's own": "@onnx_rule('Odd', since=1, domain='test')\ndef odd(b, x):\n    return x.no_such_thing  # HERE\n",
    "pass": "@register_pass('p', level='graph', before='fuse-operators')\n@dataclass\nclass P(Pass):\n    'P.'\n"
    "    def run(self, op, state):\n        helper(op)\n\ndef helper(op):\n    return {}['absent']  # HERE\n",
    "pattern": "@pattern(OddOp)\ndef f(op, rw):\n    return rw.relu(1)  # HERE\n\n"
    "@register_pass('p', level='graph', before='fuse-operators')\n@dataclass\nclass P(PatternPass):\n    'P.'\n    patterns = (f,)\n",
    "layout": "@layout_rule(OddOp)\ndef f(op, b):\n    return 1 / 0  # HERE\n",
    "lowering": "@lowering(OddOp)\ndef f(op, operands, b):\n    return operands[7]  # HERE\n",
    "schedule": "@schedule('elementwise')\ndef f(op, target):\n    return op.no_such_thing  # HERE\n",
}
RULE = "@onnx_rule('Odd', since=1, domain='test')\ndef odd(b, x):\n    return b.odd(x)\n\n"
LOWERING = "@lowering(OddOp)\ndef g(op, operands, b):\n    return operands[0]\n\n"


def compiled(text: str, tmp_path: Path):  # type: ignore[no-untyped-def]
    plugin = tmp_path / "odd.py"
    plugin.write_text(text)
    nodes = [node("Odd", ["x"], ["o"], domain="test"), node("Exp", ["o"])]
    x = floats(1, 3, 4, 4)
    onnx.save(model(nodes, {"x": x}, {"y": x}, domains={"": 21, "test": 1}), tmp_path / "odd.onnx")
    return process("main", "compile", tmp_path / "odd.onnx", "--load", plugin, "--emit", "affine", "-o", tmp_path / "odd.mlir")


@pytest.mark.parametrize("kind", MISTAKES)
def test_file_and_line_of_a_mistake(kind: str, tmp_path: Path) -> None:
    text = OPS + ("" if kind.startswith("rule") else RULE) + ("" if kind == "lowering" else LOWERING) + MISTAKES[kind]
    line = next(i for i, written in enumerate(text.splitlines(), 1) if written.endswith("# HERE"))
    compiled(text, tmp_path).refused(1, f"({tmp_path / 'odd.py'}, line {line})")


def test_a_layout_rule_must_say_why_not(tmp_path: Path) -> None:
    rule = "@layout_rule(OddOp)\ndef f(op, b):\n    return None\n"
    compiled(OPS + RULE + LOWERING + rule, tmp_path).refused(1, "the layout rule of 'graph.odd' must give a BlockedValue or NoMatch, got NoneType")
    rule = "from stepwell.plugin import NoMatch\n\n@layout_rule(OddOp)\ndef f(op, b):\n    return NoMatch('it is odd')\n"
    assert compiled(OPS + RULE + LOWERING + rule, tmp_path).status == 0


def an_op(infer: str = "x", reference: str = "x", more: str = "") -> str:
    """A plugin with an op whose functions give these."""
    head = "from stepwell.plugin import *\nfrom stepwell.plugin import CPU, Backend, Code, Fusion, LevelPath, Scalars, register_backend\n"
    text = OPS.replace("        return x\n", f"        return {infer}\n\n    @staticmethod\n    def reference(x):\n        return {reference}\n")
    return head + text.replace("    x: Operand\n", f"    {more}\n    x: Operand\n" if more else "    x: Operand\n")


ADDS = "@lowering(OddOp)\ndef g(op, operands, b):\n    s = Scalars(b, 'f32')\n"
ADDS += "    return b.elementwise(operands, 'f32', b.sizes(operands[0]), lambda v: s.add(v, s.const(2.0)))\n\n"
BACKEND = """
@register_backend('odd')
class Odd(Backend):
    'Odd.'
    path = LevelPath('graph', 'graph-opt', 'linalg', 'scheduled', 'affine')

    def phases(self, target):
        return CPU

    def generate(self, lowered, store, reached):
        return {}

    def load(self, artifact, weights, threads):
        return {}

    def listings(self):
        return {{'odd': lambda artifact: 3}}
"""
RUN, ON_ODD, BOTH, CODE = ("run",), ("run", "--backend", "odd"), RULE + LOWERING, "Code({}, 0)"
WRONG: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "an infer that gives nothing": (an_op("None") + BOTH, RUN, ("the_odd", "the `infer` of graph.odd must give a TensorType", "got None")),
    "an infer of two": (an_op("x, x") + BOTH, RUN, ("the `infer` of graph.odd must give a TensorType for each result (result)",)),
    "an infer that fails": (an_op("x.nothing") + BOTH, RUN, ("the_odd", "the `infer` of graph.odd: AttributeError", "odd.py, line ")),
    "an infer that the next op stumbles over": (
        an_op("x.with_shape((1, 3, 4, 5))") + BOTH, RUN,
        ("the `infer` of graph.odd of the_odd says tensor<1x3x4x5xf32>", "its `reference` gives the shape [1, 3, 4, 4]"),
    ),
    "a reference that fails": (
        an_op(reference="x.nothing") + BOTH, ("run", "--check", "reference"), ("`reference` of graph.odd of the_odd: AttributeError", ".py, line "),
    ),
    "a reference that gives nothing": (
        an_op(reference="None") + BOTH, ("run", "--check", "levels"), ("`reference` of graph.odd of the_odd must give 1 array, got None",),
    ),
    "a lowering that gives nothing": (
        an_op() + BOTH.replace("return operands[0]", "pass"), RUN, ("lowering 'g' of 'graph.odd'", "must give a value for each of 1 results"),
    ),
    "a rule that gives nothing": (an_op() + BOTH.replace("return b.odd(x)", "pass"), RUN, ("the_odd", "must give a value for each output")),
    "a method misspelt": (an_op() + BOTH.replace("b.odd(x)", "b.odd(b.rellu(x))"), RUN, ("the_odd", "no op graph.rellu; did you mean relu?")),
    "a schedule of nothing": (
        an_op() + BOTH + "@schedule('elementwise')\ndef s(op, target):\n    pass\n", RUN, ("the schedule 's'", "must give a Nest, got None"),
    ),
    "no code": (an_op() + BOTH + BACKEND.format("None", "None"), ON_ODD, ("backend 'odd': generate must give Code",)),
    "nothing to run": (an_op() + BOTH + BACKEND.format(CODE, "None"), ON_ODD, ("backend 'odd': load must give an Executable",)),
    "a backend that fails": (an_op() + BOTH + BACKEND.format("lowered.nothing", "0"), ON_ODD, ("'odd': generate: AttributeError", "line ")),
    "a listing of numbers": (
        an_op() + BOTH + BACKEND.format(CODE, "0"), ("compile", "--backend", "odd", "--emit", "odd"), ("--emit odd must give str, got 3",),
    ),
    "a name that is taken": (an_op() + "class OddOp(" + OPS.partition("class OddOp(")[2] + BOTH, RUN, ("there is already an op graph.odd",)),
}  # fmt: skip


def ended(text: str, folder: Path, how: tuple[str, ...], follows: str = "Exp"):  # type: ignore[no-untyped-def]
    """How a command ends with a model of the plugin's op and one that follows."""
    (folder / "odd.py").write_text(text)
    x = floats(1, 3, 4, 4)
    nodes = [node("Odd", ["x"], ["o"], domain="test"), node(follows, ["o", "x"] if follows == "Add" else ["o"])]
    onnx.save(model(nodes, {"x": x}, {"y": x}, domains={"": 21, "test": 1}), folder / "odd.onnx")
    return process("main", how[0], folder / "odd.onnx", "--load", folder / "odd.py", *how[1:])


@pytest.mark.parametrize("what", WRONG)
def test_what_a_plugin_gives_is_checked(what: str, tmp_path: Path) -> None:
    """The error says whose function it is, and is none of ours."""
    text, how, parts = WRONG[what]
    found = ended(text, tmp_path, how, "Add" if "next op" in what else "Exp")
    found.refused(1, *parts)
    assert "internal error" not in found.err


@pytest.mark.parametrize("how", [("run", "--check", "levels"), ("bisect",)], ids=lambda how: how[0])
def test_an_op_whose_lowering_and_reference_differ(how: tuple[str, ...], tmp_path: Path) -> None:
    """Which of the two is wrong nobody knows: both are named, with their lines."""
    text = an_op(reference="x + 1") + RULE + ADDS
    reference, lowering = (next(i for i, line in enumerate(text.splitlines(), 1) if part in line) for part in ("def reference", "@lowering"))
    found = ended(text, tmp_path, how)
    assert found.status == 1
    said = rf"graph\.odd: its `reference` \(\S+, line {reference - 1}\) is what it should give, its lowering 'g' \(\S+, line {lowering}\)"
    assert re.search(said, found.out), found.out


def test_the_reason_why_an_op_is_not_fused_is_right(tmp_path: Path) -> None:
    """With what makes its operands: reductions are, of a plugin too."""
    text = an_op(more="fusion = Fusion.REDUCTION") + RULE + LOWERING
    told = ended(text, tmp_path, ("inspect", "--explain", "the_odd")).out
    assert "element-wise ops that make its operand are computed with it, another kernel is not" in told, told
    text = an_op(more="fusion = Fusion.COMPLEX") + RULE + LOWERING
    told = ended(text, tmp_path, ("inspect", "--explain", "the_odd")).out
    assert "reductions, poolings and pointwise convolutions are, this is 'graph.odd', of fusion category COMPLEX" in told, told
