"""Options are said once: what a field of CompileOptions says makes its check, its flag and its docs, and nothing is left out."""

import ast
import dataclasses
import inspect
import shlex
from typing import Any

import pytest

import stepwell
from stepwell.cli.common import Parser
from stepwell.cli.compile_options import add_compile_options, compile_options, run_flags
from stepwell.options import CompileFields, CompileOptions, Flag, about, flags

NAMES = [field.name for field in dataclasses.fields(CompileOptions)]
GIVEN = {
    "target": "x86-64-v3", "backend": "llvm", "shapes": "x=2x3", "specialise": "never", "size_hints": "n=8",
    "pipeline": "scheduled(assign-schedules)", "disable": "fuse-operators", "libm": "", "strict": "", "precision": "bf16",
    "keep_f32": "*/attention/*", "reproducible": "", "plan": "s.json", "tuning": "auto", "limits": "fold_bytes=1K",
}  # fmt: skip
"""For each flag a value that is not the default, but for the one backend that is built in."""


def parsed(line: list[str]) -> tuple[Any, CompileOptions]:
    """What a command makes of its options."""
    parser = Parser()
    add_compile_options(parser)
    options = parser.parse_args(line)
    return options, compile_options(options)


def line(names: list[str]) -> list[str]:
    """The command line that gives these options."""
    return [part for name in names for part in (flags()[name].name, *([] if flags()[name].is_switch else [GIVEN[name]]))]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_says_what_it_is(name: str) -> None:
    said = about(name)
    assert len(said.words.split()) > 4
    assert not said.words.endswith(".")
    assert said.flag  # or why there is none
    assert isinstance(said.flag, str) or said.flag.name.startswith("--")
    if name != "pipeline":  # of which any text may be one: see test_pipelines.py
        with pytest.raises(stepwell.InputError, match=f"^SW003 .*({name}|backend)"):
            CompileOptions(**{name: object()})


def test_the_keywords_of_functions_are_the_fields() -> None:
    """For a type checker: it needs them written down."""
    fields, keywords = (_annotations(cls) for cls in (CompileOptions, CompileFields))
    assert keywords == fields | {"limits": "Limits | None"}  # None gives the default ones
    assert list(fields) == NAMES


def _annotations(cls: type) -> dict[str, str]:
    """The types of a class's fields as they are written."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(cls)).body if isinstance(node, ast.ClassDef))
    found = [node for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return {ast.unparse(node.target): ast.unparse(node.annotation).strip("'") for node in found}


def test_the_docstring_of_compile_names_them_all() -> None:
    said = stepwell.compile.__doc__ or ""
    assert [name for name in NAMES if f"`{name}`" not in said] == []


def test_each_flag_sets_its_field_alone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.json").write_text('{"version": 2, "kernels": {}}')
    assert GIVEN.keys() == flags().keys()
    default = parsed([])[1]
    for name in flags():
        made = parsed(line([name]))[1]
        assert [field for field in NAMES if getattr(made, field) != getattr(default, field)] == ([] if name == "backend" else [name])
    of_sizes = [name for name, flag in flags().items() if not flag.goes_with_ir]
    assert of_sizes == ["shapes", "specialise", "size_hints"]
    for names in ([name for name in flags() if name != "reproducible"], ["reproducible"]):  # which excludes libm and other precisions
        options, made = parsed(line(names))
        again = parsed(shlex.split(run_flags(options)))[1]  # as in a reproducer, which goes on from IR
        assert dataclasses.replace(made, **{name: getattr(default, name) for name in of_sizes}) == again


def test_help_says_what_the_fields_say() -> None:
    parser = Parser()
    add_compile_options(parser)
    text = " ".join(parser.format_help().replace("-\n", "-").split()).replace("- ", "-")
    for name, flag in flags().items():
        assert isinstance(flag, Flag)
        assert flag.name in text
        assert " ".join(about(name).words.split()).replace("- ", "-") in text
