"""The pipeline's syntax, and the runner that runs it."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.support.errors import IRError, PassError, PipelineError, StepwellError
from stepwell.passes.framework import registry
from stepwell.passes.framework.instrumentation import DumpIR, Instrumentation, Instruments, PassTimings, PrintIR, Reproducer
from stepwell.passes.framework.pipeline import Element, Step, flatten, format_pipeline, parse_options, parse_pipeline, plain_value
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.runner import PassRunner
from stepwell.passes.framework.upstream import manager_of, upstream_options, upstream_passes
from stepwell.passes.framework.upstream_names import DIALECTS

TWO_FUNCTIONS = """
func.func @a(%x: i32) -> i32 {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  %2 = arith.muli %0, %1 : i32
  return %2 : i32
}
func.func private @b()
"""


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9.]{1,6}|\{[a-z =1]{0,8}\}|'[a-z ,)]{0,6}'|\[[0-9, ]{0,6}\]", fullmatch=True)
PASSES = st.builds(Element, NAMES, st.dictionaries(NAMES, VALUES, max_size=3))
ELEMENTS = st.recursive(PASSES, lambda inner: st.builds(Element, NAMES, st.just({}), st.lists(inner, max_size=3).map(tuple)), max_leaves=8)


class TestSyntax:
    def test_nesting_options_and_spaces(self) -> None:
        text = "builtin.module( a , func.func(b{x=1 y={z=2 w=[3, 4]}},c{flag}) ,\n d{ s='two words' })"
        a, nested, d = parse_pipeline(text)
        assert a == Element("a")
        assert nested == Element("func.func", nested=(Element("b", {"x": "1", "y": "{z=2 w=[3, 4]}"}), Element("c", {"flag": ""})))
        assert d == Element("d", {"s": "'two words'"})

    def test_the_outer_module_may_be_left_out(self) -> None:
        assert parse_pipeline("a,b") == parse_pipeline("builtin.module(a,b)")
        assert parse_pipeline("") == parse_pipeline("builtin.module()") == []

    def test_upstreams_own_nested_pipelines_are_values(self) -> None:
        [inline] = parse_pipeline("inline{default-pipeline=canonicalize op-pipelines=func.func(canonicalize{max-iterations=1},cse)}")
        assert inline.options["op-pipelines"] == "func.func(canonicalize{max-iterations=1},cse)"

    def test_flatten_keeps_order_and_path(self) -> None:
        steps = flatten(parse_pipeline("a,func.func(b,scf.for(c{x=1})),d"))
        assert steps == [
            Step(Element("a")),
            Step(Element("b"), ("func.func",)),
            Step(Element("c", {"x": "1"}), ("func.func", "scf.for")),
            Step(Element("d")),
        ]
        assert format_pipeline(steps) == "a,func.func(b),func.func(scf.for(c{x=1})),d"

    @pytest.mark.parametrize(
        ("text", "column", "what"),
        [
            ("a,", 3, "expected the name"),
            (",a", 1, "expected the name"),
            ("a b", 3, "expected ','"),
            ("a(b", 2, "never closed"),
            ("a(", 2, "never closed"),
            ("a)", 2, "expected ','"),
            ("a(b))", 5, "expected ','"),
            ("a{x=1", 2, "never closed"),
            ("a}", 2, "expected ','"),
            ("a{x=(1}", 7, "unbalanced"),
            ("a{x=[1", 5, "never closed"),
            ("a{x='1}", 5, "quote"),
            ("a{=1}", 3, "name of an option"),
            ("a{x=1 x=2}", 7, "given twice"),
            ("func.func{x=1}(a)", 10, "no options"),
        ],
    )
    def test_errors_say_where(self, text: str, column: int, what: str) -> None:
        with pytest.raises(PipelineError, match=what) as caught:
            parse_pipeline(text)
        assert f"column {column}:" in str(caught.value)

    def test_values_lose_only_what_holds_them_together(self) -> None:
        assert [plain_value(v) for v in ("{a b}", "'a b'", '"a"', "a", "{", "")] == ["a b", "a b", "a", "a", "{", ""]
        assert parse_options("x=1 y={z=2} flag") == {"x": "1", "y": "{z=2}", "flag": ""}

    def test_options_are_replaced_by_name(self) -> None:
        element = Element("a", {"x": "1", "y": "2"})
        assert str(element.with_options("y={z=3} flag")) == "a{x=1 y={z=3} flag}"
        assert element.options == {"x": "1", "y": "2"}
        with pytest.raises(PipelineError):
            element.with_options("=1")

    @hypothesis.given(st.lists(ELEMENTS, max_size=4))
    def test_what_is_printed_reads_back(self, elements: list[Element]) -> None:
        hypothesis.assume(not (len(elements) == 1 and elements[0].nested is not None and elements[0].name == "builtin.module"))
        assert parse_pipeline(format_pipeline(elements)) == elements

    @hypothesis.given(st.text(alphabet="ab{}()[]=, '\"", max_size=14))
    def test_any_text_parses_or_raises_the_typed_error(self, text: str) -> None:
        with contextlib.suppress(PipelineError):
            assert format_pipeline(parse_pipeline(text)) is not None


@pytest.fixture(autouse=True)
def own_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes that only these tests know."""
    monkeypatch.setattr(registry, "_PASSES", registry.passes())

    @register_pass("t-tag", level="graph", anchor="func.func")
    @dataclass
    class Tag(Pass):
        """Mark a function."""

        text: str = "x"

        def run(self, op: ir.Operation, state: PassState) -> None:
            assert op.name == "func.func"
            op.attributes[f"test.{self.text}"] = ir.UnitAttr.get()

    @register_pass("t-raise", level="graph")
    @dataclass
    class Raise(Pass):
        """Fail."""

        kind: str = "value"

        def run(self, op: ir.Operation, state: PassState) -> None:
            op.attributes["test.half_done"] = ir.UnitAttr.get()
            if self.kind == "typed":
                raise IRError("this IR will not do", code="SW123", details=("one", "two"))
            raise ValueError("oops")

    @register_pass("t-break", level="graph")
    @dataclass
    class Break(Pass):
        """Leave IR that no verifier accepts."""

        def run(self, op: ir.Operation, state: PassState) -> None:
            del op.regions[0].blocks[0].operations[0].attributes["function_type"]


@pytest.fixture
def module() -> ir.Module:
    return parse_module(TWO_FUNCTIONS, make_context())


class Log(Instrumentation):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        self.events.append(f"before {step} [{rest}]")

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        self.events.append(f"after {step} {level} {seconds >= 0}")

    def failed(self, step: Step, error: Exception) -> str | None:
        self.events.append(f"failed {step}")
        return "a note"


class TestRunner:
    def test_ours_and_upstreams_run_in_order(self, module: ir.Module) -> None:
        log = Log()
        PassRunner(PassState(), log).run(module, "func.func(t-tag{text=a},cse),t-tag{text=b}", level="graph")
        assert log.events == [
            "before func.func(t-tag{text=a}) [func.func(t-tag{text=a}),func.func(cse),t-tag{text=b}]",
            "after func.func(t-tag{text=a}) graph True",
            "before func.func(cse) [func.func(cse),t-tag{text=b}]",
            "after func.func(cse) graph True",
            "before t-tag{text=b} [t-tag{text=b}]",
            "after t-tag{text=b} graph True",
        ]
        text = str(module)
        assert text.count("test.a") == text.count("test.b") == 2  # both functions
        assert text.count("arith.addi") == 1

    def test_elements_instead_of_text(self, module: ir.Module) -> None:
        PassRunner(PassState()).run(module, [Element("t-tag", {"text": "a"})])
        assert "test.a" in str(module)

    @pytest.mark.parametrize(
        ("pipeline", "message"),
        [
            ("cse,nonsense", "there is no pass 'nonsense'"),
            ("cse,canonicalise", "did you mean canonicalize"),
            ("cse,t-tags", "did you mean t-tag"),
            ("cse,t-tag{txt=1}", "pass 't-tag' has no option 'txt'; it has: text"),
            ("cse,canonicalize{foo=1}", "pass 'canonicalize' has no option 'foo'; it has: .*max-iterations"),
            ("cse,canonicalize{max-iterations=many}", "a value does not fit in .*max-iterations=many.*defaults: max-iterations=10"),
            ("cse,affine-loop-tile", r"runs on func\.func: write func\.func\(affine-loop-tile\)"),
            ("cse,func.func(one-shot-bufferize)", r"runs on builtin\.module: it cannot be nested in func\.func"),
            ("cse,func.func(t-break)", r"runs on builtin\.module and cannot be nested in func\.func"),
        ],
    )
    def test_a_wrong_pipeline_runs_nothing(self, module: ir.Module, pipeline: str, message: str) -> None:
        before = str(module)
        with pytest.raises(PipelineError, match=message):
            PassRunner(PassState()).run(module, pipeline)
        assert str(module) == before

    def test_errors_name_level_and_pass_and_keep_the_cause(self, module: ir.Module) -> None:
        with pytest.raises(PassError, match=r"level linalg, pass 't-raise': ValueError: oops") as caught:
            PassRunner(PassState()).run(module, "t-raise", level="linalg")
        assert isinstance(caught.value.__cause__, ValueError)

    def test_typed_errors_keep_their_type_code_and_details(self, module: ir.Module) -> None:
        with pytest.raises(IRError, match=r"SW123 level linalg, pass 't-raise': this IR will not do; a note") as caught:
            PassRunner(PassState(), Log()).run(module, "t-raise{kind=typed}", level="linalg")
        assert caught.value.details == ("one", "two")

    def test_upstreams_failures_are_ours(self) -> None:
        context = make_context()
        context.allow_unregistered_dialects = True
        text = 'func.func @f(%t: tensor<2xf32>) -> tensor<2xf32> { %0 = "x.y"(%t) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %0 : tensor<2xf32> }'
        unlowered = parse_module(text, context)
        with pytest.raises(PassError, match=r"pass 'one-shot-bufferize': .*x\.y") as caught:
            PassRunner(PassState()).run(unlowered, "one-shot-bufferize{bufferize-function-boundaries=true}")
        assert not isinstance(caught.value, ir.MLIRError)

    def test_what_a_pass_leaves_is_verified(self, module: ir.Module) -> None:
        log = Log()
        with pytest.raises(PassError, match=r"pass 't-break': left IR that does not verify: .*function_type"):
            PassRunner(PassState(), log).run(module, "t-break,cse")
        assert [event.split()[0] for event in log.events] == ["before", "failed"]

    def test_verification_can_be_off(self, module: ir.Module) -> None:
        PassRunner(PassState(), verify=False).run(module, "t-break")

    def test_any_nests_passes_of_every_op(self, module: ir.Module) -> None:
        PassRunner(PassState()).run(module, "any(cse),any(t-tag{text=a})")
        assert str(module).count("test.a") == 2


class TestInstrumentation:
    def test_timings(self, module: ir.Module) -> None:
        timings = PassTimings()
        PassRunner(PassState(), timings).run(module, "cse,t-tag", level="graph")
        assert [(str(t.step), t.level) for t in timings.entries] == [("cse", "graph"), ("t-tag", "graph")]
        assert "total of 2 passes" in timings.report()

    def test_printing(self, module: ir.Module, capsys: pytest.CaptureFixture[str]) -> None:
        PassRunner(PassState(), PrintIR(before=True)).run(module, "cse")
        printed = capsys.readouterr().err
        before, after = printed.split("IR Dump After cse")
        assert "IR Dump Before cse" in before
        assert before.count("addi") == 2
        assert after.count("addi") == 1

    def test_dumps_are_numbered_and_parse(self, module: ir.Module, tmp_path: Path) -> None:
        PassRunner(PassState(), DumpIR(tmp_path / "new" / "folder")).run(module, "cse,func.func(t-tag)")
        files = sorted((tmp_path / "new" / "folder").iterdir())
        assert [f.name for f in files] == ["000_input.mlir", "001_cse.mlir", "002_t-tag.mlir"]
        assert [f.read_text().count("arith.addi") for f in files] == [2, 1, 1]
        for file in files:
            parse_module(file.read_text(), make_context()).operation.verify()

    @pytest.mark.parametrize("kind", ["dump", "reproducer"])
    def test_a_reproducer_holds_the_ir_before_and_the_rest(self, module: ir.Module, tmp_path: Path, kind: str) -> None:
        file = tmp_path / "reproducer.mlir"
        watching = DumpIR(tmp_path) if kind == "dump" else Reproducer(file)
        with pytest.raises(PassError, match=f"reproducer: {file}"):
            PassRunner(PassState(), Instruments(Log(), watching)).run(module, "cse,t-raise,canonicalize")
        first, second, *text = file.read_text().splitlines()
        assert "--pass-pipeline='t-raise,canonicalize'" in first
        assert "oops" in second
        again = parse_module("\n".join(text), make_context())
        assert "half_done" not in str(again)
        assert str(again).count("arith.addi") == 1
        with pytest.raises(PassError, match="oops"):
            PassRunner(PassState()).run(again, first.split("'")[1])


class TestUpstream:
    def test_every_listed_pass_parses_where_the_list_says(self) -> None:
        context = make_context()
        for name, anchor in upstream_passes().items():
            step = Step(Element(name), () if anchor == "builtin.module" else (anchor,))
            assert name in str(manager_of(step, context)) or not upstream_options(name, context)

    def test_the_list_is_not_short_of_what_everybody_uses(self) -> None:
        wanted = {"canonicalize", "cse", "one-shot-bufferize", "convert-vector-to-llvm", "transform-interpreter", "convert-openmp-to-llvm"}
        assert wanted <= set(upstream_passes())
        assert len(upstream_passes()) > 300

    def test_options_have_their_defaults(self) -> None:
        assert upstream_options("canonicalize", make_context())["max-iterations"] == "10"
        with pytest.raises(PipelineError, match="no pass"):
            upstream_options("nonsense", make_context())

    def test_dialects_are_those_that_load(self) -> None:
        context = make_context()
        for name in DIALECTS:
            assert context.get_dialect_descriptor(name).namespace == name

    def test_no_pass_of_ours_hides_one_of_upstreams(self) -> None:
        assert not set(registry.passes()) & set(upstream_passes())


def test_typed_errors_have_a_common_base() -> None:
    assert issubclass(PipelineError, StepwellError)
    assert issubclass(PassError, StepwellError)
