"""Mistakes in plugins: the message has the file and the line, without a traceback."""

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
