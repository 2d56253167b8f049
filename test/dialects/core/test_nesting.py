"""Text of IR that is nested too deeply for MLIR's parser is refused before that sees it; what the compiler writes is not."""

import pytest

from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.core.nesting import DEEPEST, is_too_deep
from stepwell.dialects.support.errors import IRError, PipelineError
from stepwell.passes.framework.pipeline import parse_pipeline

KINDS = {
    "regions": lambda n: "module {" + '"t.r"() ({' * (n // 2) + '"t.q"() : () -> ()' + "}) : () -> ()" * (n // 2) + "}",
    "open regions": lambda n: '"t.r"() ({' * (n // 2),
    "lists": lambda n: "module attributes {a.b = " + "[" * n + "]" * n + "} {}",
    "types": lambda n: "module attributes {a.b = " + "tuple<" * n + "i1" + ">" * n + "} {}",
    "expressions": lambda n: "module attributes {a.b = affine_map<(d) -> (" + "(" * n + "d" + ")" * n + ")>} {}",
    "signs": lambda n: "module attributes {a.b = affine_map<(d) -> (" + "- " * n + "d)>} {}",
    "locations": lambda n: "module {} loc(" + 'callsite("a" at ' * n + '"b"' + ")" * n + ")",
    "aliases": lambda n: "#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}] " for i in range(n // 2)) + f"module attributes {{a.b = #a{n // 2}}} {{}}",
    "aliases that come first": lambda n: "".join(f"#a{i} = [#a{i + 1}] " for i in range(n // 2)) + f"#a{n // 2} = [1] module {{}}",
    "types by name": lambda n: "!a0 = i1\n" + "".join(f"!a{i + 1} = tuple<!a{i}>\n" for i in range(n // 2)) + "module {}",
    "behind closing ones": lambda n: "module attributes {a.b = affine_map<(d) -> (d)>} {" + '"t.q"() : () -> ()\n' * 9 + '"t.r"() ({' * (n // 2),
    "among strings and remarks": lambda n: "// )))]]]\n" + '"t.r"() ({ "t.q"() {a = "})})})\\""} : () -> ()\n// })})\n' * (n // 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_depth_is_counted_before_parsing(kind: str) -> None:
    for count in (DEEPEST + 10, 20 * DEEPEST):
        with pytest.raises(IRError, match=f"nested more than {DEEPEST} deep"):
            parse_module(KINDS[kind](count), make_context())
    below = KINDS[kind](DEEPEST - 20)
    if not kind.startswith("alias") and kind != "types by name":  # of which each takes two
        assert not is_too_deep(below)
    context = make_context()
    context.allow_unregistered_dialects = True
    try:
        ir.Module.parse(below, context)  # what is let through does not end the process
    except ir.MLIRError:
        assert "open" in kind or "behind" in kind or "among" in kind or "first" in kind


def test_ordinary_text_is_not_deep() -> None:
    assert not is_too_deep("")
    assert not is_too_deep("// " + "(" * 9999)
    assert not is_too_deep('"' + "[" * 9999 + '"')
    assert not is_too_deep("affine_set<(d) : (d >= 0)> -> (i1) -> () " * 2000)
    assert not is_too_deep("".join(f'#loc{i} = loc("n"(#loc))\n' for i in range(2000)) + "#loc = loc(unknown)")
    assert not is_too_deep("module attributes {a = dense<[" + ", ".join(["[1, 2]"] * 2000) + "]>} {}")


def test_pipelines_too() -> None:
    for text in ("builtin.module(" * 5000 + ")" * 5000, "any(" * 9999):
        with pytest.raises(PipelineError):
            parse_pipeline(text)
