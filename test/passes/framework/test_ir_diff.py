"""The difference of IR: what counts, and what does not."""

import pytest

from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.passes.framework.ir_diff import ir_diff, text_of

BODY = """
    %a = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
    %b = "graph.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
    %c = "graph.add"(%a, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
"""
UNARY = '"graph.{}"(%{}) : (tensor<3xf32>) -> tensor<3xf32>'


def function(body: str = BODY, result: str = "%c", name: str = "f") -> str:
    return f"func.func @{name}(%x: tensor<3xf32>) -> tensor<3xf32> {{ {body} return {result} : tensor<3xf32> }}"


def diff(before: str, after: str) -> list[str]:
    """The changed lines."""
    texts = [text_of(parse_module(text, make_context())) for text in (before, after)]
    assert ir_diff(texts[0], texts[0]) == ""
    return [line for line in ir_diff(*texts).splitlines() if line[0] in "+-" and line[:3] not in ("---", "+++")]


def test_locations_do_not_count() -> None:
    assert diff(function(), function(BODY.replace("xf32>\n", 'xf32> loc("a node")\n'))) == []


def test_a_new_op_is_all_that_changes_though_all_behind_it_are_renumbered() -> None:
    [line] = diff(function(), function("%n = " + UNARY.format("neg", "x") + BODY))
    assert line.startswith('+    %0.new = "graph.neg"(%arg0)')


def test_an_op_that_goes_is_all_that_changes() -> None:
    [line] = diff(function("%n = " + UNARY.format("neg", "x") + BODY), function())
    assert line.startswith('-    %0 = "graph.neg"(%arg0)')


def test_another_op_in_the_place_of_one_leaves_those_that_use_it_alone() -> None:
    gone, new = diff(function(), function(BODY.replace("relu", "abs")))
    assert "graph.relu" in gone
    assert "graph.abs" in new


def test_swapped_operands_count() -> None:
    gone, new = diff(function(), function(BODY.replace("%a, %b", "%b, %a")))
    assert "(%0, %1)" in gone
    assert "(%1, %0)" in new


def test_other_results_count() -> None:
    assert len(diff(function(), function(result="%a"))) == 2


def test_numbers_in_regions_that_see_nothing_around_them_count_anew() -> None:
    def fused(before: str, inside: str) -> str:
        return function(f"""
          {before}
          %f = "graph.fused"(%x) ({{
          ^bb0(%y: tensor<3xf32>):
            {inside}
            %i = "graph.relu"(%y) : (tensor<3xf32>) -> tensor<3xf32>
            "graph.yield"(%i) : (tensor<3xf32>) -> ()
          }}) : (tensor<3xf32>) -> tensor<3xf32>
          %e = "graph.exp"(%f) : (tensor<3xf32>) -> tensor<3xf32>
        """, "%e")  # fmt: skip

    first, second = "%n = " + UNARY.format("neg", "x"), "%m = " + UNARY.format("abs", "y")
    for lines, word in ((diff(fused("", ""), fused(first, "")), "graph.neg"), (diff(fused(first, ""), fused(first, second)), "graph.abs")):
        assert len(lines) == 1
        assert word in lines[0]


def test_names_from_inside_of_such_a_region_mean_nothing_behind_it() -> None:
    def text(inside: str) -> str:
        return function(f"""
          %o = "graph.neg"(%x) : (tensor<3xf32>) -> tensor<3xf32>
          %f = "graph.fused"(%x) ({{
          ^bb0(%y: tensor<3xf32>):
            {inside}
            %i = "graph.relu"(%y) : (tensor<3xf32>) -> tensor<3xf32>
            "graph.yield"(%i) : (tensor<3xf32>) -> ()
          }}) : (tensor<3xf32>) -> tensor<3xf32>
          %e = "graph.add"(%f, %o) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        """, "%e")  # fmt: skip

    [line] = diff(text(""), text("%m = " + UNARY.format("abs", "y")))
    assert "graph.abs" in line


def test_two_values_in_the_place_of_one_are_not_it() -> None:
    once = """
      %a = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %c = "graph.add"(%a, %a) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    """
    twice = once.replace("%c", "%b = " + UNARY.format("relu", "x") + "\n%c").replace("%a, %a", "%a, %b")
    changed = diff(function(once), function(twice))
    assert [line[0] for line in changed if "graph.add" in line] == ["-", "+"]


def test_loops_and_blocks() -> None:
    body = """
      func.func @f(%m: memref<8xf32>) {{
        {}
        affine.for %i = 0 to 8 {{
          %v = affine.load %m[%i] : memref<8xf32>
          affine.store %v, %m[%i {}] : memref<8xf32>
        }}
        cf.br ^end
      ^end:
        return
      }}
    """
    constant = "%c = arith.constant 1.0 : f32"
    assert len(diff(body.format("", ""), body.format(constant, ""))) == 1
    assert len(diff(body.format(constant, ""), body.format(constant, "mod 8"))) == 2


def test_kernels_whose_digest_changed_are_compared() -> None:
    def kernel(digest: str, body: str) -> str:
        return function(body, name=f"relu_{digest}")

    lines = diff(kernel("0123abcd", BODY), kernel("4567ef01", BODY.replace("exp", "log")))
    assert [("relu_0123abcd" in lines[0], "relu_4567ef01" in lines[1])] == [(True, True)]
    assert len(lines) == 4
    assert sorted(line[0] for line in diff(function(), function() + function(name="g"))) == ["+"] * 6


@pytest.mark.parametrize("context", [0, 1])
def test_lines_around(context: int) -> None:
    before, after = (text_of(parse_module(text, make_context())) for text in (function(), function(BODY.replace("exp", "log"))))
    found = ir_diff(before, after, ("a", "b"), context).splitlines()
    assert found[:2] == ["--- a", "+++ b"]
    assert found[2].startswith("@@ -")
    assert found[2].endswith(" @f")
    assert len(found) == 5 + 2 * context
