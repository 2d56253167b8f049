"""Pipelines as data: edited, written, read, refused; plugins' passes in their places; and that what is compiled goes through them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import Ended, process
from onnx import TensorProto, helper

import stepwell
from stepwell import Pipeline
from stepwell.dialects.support.errors import InputError, PipelineError
from stepwell.passes.framework import registry
from stepwell.passes.framework.registry import Pass, register_pass

DEFAULT = Pipeline.default()
PLUGIN = '''
from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.graph import GraphBuilder
from stepwell.passes.framework.registry import Pass, PassState, register_pass


@register_pass("replace-sums", level="graph", after="pack-matmul", optional=True)
@dataclass
class ReplaceSums(Pass):
    """Compute other things than sums."""

    by: str = "sub"

    def run(self, op, state):
        builder = GraphBuilder(state.weights)
        for add in [o for o in ops_below(op) if o.name == "graph.add"]:
            with ir.InsertionPoint(add), add.location:
                add.results[0].replace_all_uses_with(getattr(builder, self.by)(*add.operands))
            add.erase()
'''


@pytest.fixture
def sum_model(tmp_path: Path) -> Path:
    """y = x + x * c, in a file."""
    value, path = helper.make_tensor_value_info, tmp_path / "sum.onnx"
    nodes = [helper.make_node("Mul", ["x", "c"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"], name="the sum")]
    weight = helper.make_tensor("c", TensorProto.FLOAT, [5], [2.0, 3.0, 5.0, 7.0, 11.0])
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [3, 5])], [value("y", TensorProto.FLOAT, [3, 5])], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PASSES", registry.passes())


def names(pipeline: Pipeline, stage: str) -> list[str]:
    return [step.name for step in pipeline.stage(stage).steps]


def behind(passes: list[str], name: str, new: str) -> list[str]:
    """The passes with a new one behind the one of that name."""
    place = passes.index(name) + 1
    return [*passes[:place], new, *passes[place:]]


def register(name: str, **where: str) -> None:
    @register_pass(name, **{"level": "graph", **where})
    @dataclass
    class Added(Pass):
        __qualname__ = name


def test_the_default_pipeline_can_be_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.txt"
    DEFAULT.save(file)
    assert Pipeline.from_source(file) == DEFAULT
    assert Pipeline.load(file) == Pipeline.load(str(file)) == DEFAULT
    assert Pipeline.from_source(DEFAULT.text) == DEFAULT
    assert Pipeline.parse("// all of it\n" + file.read_text()).stage("llvm").cut == DEFAULT.stage("llvm").cut == 2


def test_a_text_replaces_the_stages_that_it_names() -> None:
    pipeline = Pipeline.from_source("graph-opt(check-lowerable,fuse-operators{max-ops=1},outline-kernels)")
    assert pipeline.stage("graph-opt").text == "check-lowerable,fuse-operators{max-ops=1},outline-kernels"
    assert pipeline.stages[1:] == Pipeline.default().stages[1:]  # with the passes of plugins that this process has loaded by now


@pytest.mark.parametrize(
    ("edit", "stage", "want"),
    [
        (lambda p: p.insert_after("pack-matmul", "cse"), "graph-opt", lambda n: behind(n, "pack-matmul", "cse")),
        (
            lambda p: p.insert_before("fold-constants#2", "cse,canonicalize"),
            "graph-opt",
            lambda n: behind(behind(n, "fold-batch-norm", "canonicalize"), "fold-batch-norm", "cse"),
        ),
        (lambda p: p.remove("canonicalize#4"), "linalg", lambda n: [*n[:3], *n[4:]]),
        (lambda p: p.remove("linalg/canonicalize#2"), "linalg", lambda n: n[:-1]),
        (lambda p: p.replace("pack-weights", "pack-weights,cse"), "linalg", lambda n: ["pack-weights", "cse", *n[1:]]),
    ],
)
def test_edits(edit: Callable[[Pipeline], Pipeline], stage: str, want: Callable[[list[str]], list[str]]) -> None:
    before = DEFAULT.text
    edited = edit(DEFAULT)
    assert names(edited, stage) == want(names(DEFAULT, stage))
    assert [s for s in edited.stages if s.name != stage] == [s for s in DEFAULT.stages if s.name != stage]
    assert DEFAULT.text == before
    assert Pipeline.from_source(edited.text) == edited


def test_edits_beside_the_cut_stay_on_their_side() -> None:
    def halves(pipeline: Pipeline) -> tuple[list[str], list[str]]:
        stage = pipeline.stage("llvm")
        return [s.name for s in stage.whole], [s.name for s in stage.per_function]

    whole, alone = halves(DEFAULT)
    assert halves(DEFAULT.insert_after("bare-arguments", "cse")) == ([*whole, "cse"], alone)
    assert halves(DEFAULT.insert_before("locate-weights", "cse,canonicalize")) == (["cse", "canonicalize", *whole], alone)
    assert halves(DEFAULT.insert_before("expand-math", "cse")) == (whole, ["cse", *alone])
    assert halves(DEFAULT.remove("expand-math")) == (whole, alone[1:])
    assert halves(DEFAULT.remove("bare-arguments")) == (whole[:-1], alone)
    assert halves(DEFAULT.without(["select-bounds", "limit-unrolling"]))[0] == whole
    twice = DEFAULT.insert_before("locate-weights", "select-bounds")
    assert halves(twice) == (["select-bounds", *whole], alone)
    assert halves(twice.without(["select-bounds"])) == (whole, [name for name in alone if name != "select-bounds"])


def test_a_pass_on_functions_runs_on_all_of_them() -> None:
    assert "pack-weights,func.func(promote-buffers-to-stack),convert-" in DEFAULT.insert_after("pack-weights", "promote-buffers-to-stack").text
    without = DEFAULT.remove("remove-boundaries").remove("version-kernels").remove("fuse-loops").text
    assert "canonicalize,use-destinations,fill-borders,collapse-dimensions{free=true},collapse-dimensions," in without


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda p: p.insert_after("pack-matmu", "cse"), "there is no pass 'pack-matmu' in the pipeline; did you mean 'pack-matmul'"),
        (lambda p: p.insert_after("cse", "canonicalize"), r"'cse' comes 5 times in the pipeline; say which: cse#1 \(stage graph-opt\)"),
        (lambda p: p.remove("cse#6"), "'cse#6': the pass comes 5 times in the pipeline"),
        (lambda p: p.remove("cse#0"), "'cse#0': the pass comes 5 times in the pipeline"),
        (lambda p: p.remove("linalg/cse"), "there is no pass 'linalg/cse' in the pipeline"),
        (lambda p: p.remove("graf/cse"), "there is no stage 'graf'"),
        (lambda p: p.remove("a b"), "expected the place of a pass"),
        (lambda p: p.insert_after("pack-matmul", "pack-matmlu"), "there is no pass 'pack-matmlu'; did you mean pack-matmul"),
        (lambda p: p.insert_after("pack-matmul", "fuse-operators{max-ops=many}"), "'max-ops' must be of type int, got 'many'"),
        (lambda p: p.insert_after("pack-matmul", "bufferize"), "'bufferize' works on IR at level scheduled and cannot stand in stage graph-opt"),
        (lambda p: Pipeline.from_source("fold-constants,cse()"), "expected stages with passes, as in graph-opt"),
        (lambda p: Pipeline.from_source("graph-opt(cse),graph-opt(cse)"), "'graph-opt' is given twice"),
        (lambda p: Pipeline.from_source("linalg(per-function(cse))"), "is expected once, as the end of the stage 'llvm'"),
        (lambda p: Pipeline.from_source("llvm(per-function(cse),cse)"), "is expected once, as the end of the stage 'llvm'"),
        (lambda p: Pipeline.parse("graph-opt(cse)"), "there is none for linalg, scheduled, affine, llvm"),
        (lambda p: Pipeline.from_source("nowhere.txt"), "nowhere.txt: No such file"),
    ],
)
def test_what_does_not_fit_is_refused(edit: Callable[[Pipeline], Pipeline], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        edit(DEFAULT)


def test_what_cannot_be_switched_off_is_said() -> None:
    with pytest.raises(InputError, match="did you mean 'pack-matmul'"):
        DEFAULT.without(["pack-matmu"])


def test_a_switch_keeps_the_other_options_of_its_pass() -> None:
    own = DEFAULT.replace("convert-layout", "convert-layout{block=8}").without(["unmasked-lanes"])
    assert "convert-layout{block=8 mask=true}" in own.text


@pytest.mark.usefixtures("own_registry")
def test_a_pass_between_passes_of_two_stages_is_in_the_first() -> None:
    register("between", after="pack-matmul", before="pack-weights")
    assert names(Pipeline.default(), "graph-opt") == behind(names(DEFAULT, "graph-opt"), "pack-matmul", "between")


@pytest.mark.usefixtures("own_registry")
def test_registered_passes_stand_in_their_places() -> None:
    register("third", after="second", before="fuse-operators")
    register("second", after="pack-matmul")
    register("first", before="second")
    register("nowhere")
    added = names(Pipeline.default(), "graph-opt")
    place = added.index("pack-matmul")
    assert added[place : place + 5] == ["pack-matmul", "first", "second", "third", "canonicalize"]
    assert "nowhere" not in added
    assert [n for n in added if n not in ("first", "second", "third")] == names(DEFAULT, "graph-opt")


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"after": "use-pannels"}, r"pass 'mine' \(.*\) cannot be put in its place: there is no pass 'use-pannels'"),
        ({"after": "cse"}, "cannot be put in its place: 'cse' comes 5 times"),
        ({"after": "fuse-operators", "before": "pack-matmul"}, "cannot stand after 'fuse-operators' and before 'pack-matmul', which comes first"),
        ({"after": "pack-matmul", "before": "pack-matmul"}, "cannot stand after 'pack-matmul' and before 'pack-matmul'"),
        ({"after": "pack-weights", "before": "pack-matmul"}, "cannot stand after 'pack-weights' and before 'pack-matmul', which comes first"),
        ({"after": "pack-weights"}, "'mine' works on IR at level graph and cannot stand in stage linalg"),
        ({"after": "mine"}, "there is no pass 'mine'"),
    ],
)
def test_places_that_do_not_exist_are_told(where: dict[str, str], message: str) -> None:
    register("mine", **where)
    with pytest.raises(PipelineError, match=message):
        Pipeline.default()


def command(*arguments: str | Path) -> Ended:
    return process("main", *arguments)


def result(model: Path, *arguments: str | Path) -> np.ndarray:
    """What the command computes of x = 0, 1, 2, …"""
    np.save(model.with_name("x.npy"), np.arange(15, dtype=np.float32).reshape(3, 5))
    ended = command("run", model, "--input", f"x={model.with_name('x.npy')}", "--save", model.with_name("out"), *arguments)
    assert ended.status == 0, ended.err
    return np.load(model.with_name("out") / "y.npy")


@pytest.mark.usefixtures("cache_folder")
def test_a_plugins_pass_runs_in_its_place_and_an_edit_of_it_shows_at_once(sum_model: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN)
    x, c = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([2, 3, 5, 7, 11], np.float32)
    np.testing.assert_array_equal(result(sum_model), x + x * c)
    np.testing.assert_array_equal(result(sum_model, "--load", plugin), x - x * c)
    np.testing.assert_array_equal(result(sum_model, "--load", plugin, "--disable", "replace-sums"), x + x * c)
    other = ("--replace-pass", "replace-sums=replace-sums{by=maximum}")
    np.testing.assert_array_equal(result(sum_model, "--load", plugin, *other), np.maximum(x, x * c))
    np.testing.assert_array_equal(result(sum_model, "--load", plugin, "--remove-pass", "replace-sums"), x + x * c)
    plugin.write_text(PLUGIN.replace('by: str = "sub"', 'by: str = "mul"'))
    np.testing.assert_array_equal(result(sum_model, "--load", plugin), x * (x * c))
    shown = command("pipeline", "--load", plugin).out
    row = next(line for line in shown.splitlines() if line.startswith("replace-sums"))
    assert "by=mul" in row
    assert "Compute other things than sums." in row
    assert "plugin.py" in "".join(shown.split())


def test_a_pipeline_from_a_file(sum_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.txt"
    assert command("pipeline", "--remove-pass", "pack-matmul", "-o", file).status == 0
    assert Pipeline.from_source(file) == DEFAULT.remove("pack-matmul")
    file.write_text("graph-opt(check-lowerable, fuse-operators{max-ops=1},\n// each op a kernel\noutline-kernels)")
    x, c = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([2, 3, 5, 7, 11], np.float32)
    np.testing.assert_array_equal(result(sum_model, "--pipeline", file), x + x * c)
    assert stepwell.compile(sum_model, pipeline=file).kernels == 2
    assert stepwell.compile(sum_model).kernels == 1
    shown = command("pipeline", sum_model, "--pipeline", file).out
    assert shown.startswith("backend: llvm, code from affine or llvm")
    stage = shown.partition("to graph-opt")[2].partition("to linalg")[0].splitlines()[3:]
    assert [line.split()[0] for line in stage if line[:1].strip()] == ["check-lowerable", "fuse-operators", "outline-kernels"]
    assert "max-ops=1 " in shown


@pytest.mark.usefixtures("cache_folder")
def test_the_pipeline_is_part_of_the_cache_key(sum_model: Path) -> None:
    def compiled(**how: object) -> bool:
        return "cache" not in stepwell.compile(sum_model, **how).timings

    own = DEFAULT.insert_after("pack-matmul", "cse")
    assert compiled(pipeline=own)
    assert not compiled(pipeline=own.text)
    assert compiled(pipeline=own.remove("pack-matmul"))
    assert compiled()
    assert not compiled()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--insert-after", "pack-matmul"), "--insert-after pack-matmul: expected NAME=PASS"),
        (("--insert-after", "pack-matmu=cse"), "did you mean 'pack-matmul'"),
        (("--pipeline", "nowhere"), "nowhere: No such file"),
        (("--disable", "block-channels"), "did you mean 'convert-layout'"),
        (("--insert-after", "block-channels=cse"), "did you mean 'convert-layout'"),
        (("--disable", "pack-matmu"), "--disable: 'pack-matmu' cannot be switched off: did you mean 'pack-matmul'"),
    ],
)
def test_wrong_command_lines(sum_model: Path, arguments: tuple[str, ...], message: str) -> None:
    ended = command("run", sum_model, *arguments)
    assert ended.status == 2
    assert message in ended.err


def test_each_pass_says_what_it_does() -> None:
    """Upstream's too, of which no summary is about a pass that does not exist."""
    from stepwell.cli.listing import summary
    from stepwell.passes.framework.registry import passes
    from stepwell.passes.framework.upstream import upstream_passes, upstream_summary
    from stepwell.passes.framework.upstream_names import SUMMARIES

    assert not SUMMARIES.keys() - upstream_passes().keys()
    for stage in DEFAULT.stages:
        for step in stage.steps:
            text = summary(passes()[step.name]) if step.name in passes() else upstream_summary(step.name)
            assert text.endswith("."), step.name
    shown = command("pipeline").out
    assert "Compute once what several ops compute from the same operands." in shown
