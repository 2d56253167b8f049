"""What came of a case, and whether that was expected: right, or unsupported by name and in the list."""

import functools
import itertools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend_suite.cases import Case, Value, arrays_in, cases, graphs
from backend_suite.forms import FORMS, in_form
from importing import assert_close
from joined_models import culprit, joined
from onnx import ModelProto
from onnx.backend.test.runner import Runner
from watchdog import Watchdog

LIST = Path(__file__).parent / "unsupported.toml"
FAILED = Path(__file__).parent / "failed.txt"
# Here the expected values are off by more than the case allows, and ours are nearer to what is meant (both compared with f64). How many
# terms the sums have whose rounding is allowed instead. The inverse DFTs expect 1.9e-7 for what is 0: numpy 2 transforms complex64 in f32, numpy 1
# did so in f64. The attention expects what one gets by rounding to f16 after each of its ops.
ROUNDED = {r"test_dft_inverse(_opset19)?": 10, r"test_attention_4d_causal_fp16_expanded": 8}
SECONDS = 300.0  # for one case; a hang must end, a slow machine must not be one


@dataclass(frozen=True)
class Verdict:
    """`status` is "passed", "unsupported" or what is wrong: "wrong" (the outputs), "error", "died" or "timeout" (the process)."""

    case: str
    op: str
    form: str
    status: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.case} ({self.form}): {self.status} {self.text}".rstrip()


def judge(dog: Watchdog, case: Case, form: str, options: Mapping[str, Any]) -> Verdict:
    """Run a case in a form, compiled with options of `stepwell.compile`."""
    formed = in_form(case, form)
    outcome = dog.call("backend_suite.running:compile_and_run", *formed, dict(options), seconds=SECONDS)
    if outcome.kind != "returned":
        return Verdict(case.name, case.op, form, outcome.kind, str(outcome))
    answer = outcome.value
    if answer.outputs is not None:
        text = difference(case, answer.outputs)
        return Verdict(case.name, case.op, form, "wrong" if text else "passed", text)
    if answer.failure == "unsupported" and not _names_something(answer.text, formed[0]):
        return Verdict(case.name, case.op, form, "error", f"names no operator or input: {answer.text}")
    return Verdict(case.name, case.op, form, answer.failure, answer.text)


def judge_together(dog: Watchdog, cases: Sequence[Case], form: str, options: Mapping[str, Any]) -> list[Verdict]:
    """As `judge`, with many cases in one model.

    Of cases that give no outputs together, the one that the message names is tried by itself, else each half, down to a single case. What is wrong
    only beside other cases is wrong.
    """
    if len(cases) == 1:
        return [judge(dog, cases[0], form, options)]
    formed = [in_form(case, form) for case in cases]
    model, inputs = joined([ModelProto.FromString(model) for model, _ in formed]), [value for _, values in formed for value in values]
    outcome = dog.call("backend_suite.running:compile_and_run", model.SerializeToString(), inputs, dict(options), seconds=SECONDS)
    if outcome.kind != "returned" or outcome.value.outputs is None:
        named = culprit(outcome.value.text, len(cases)) if outcome.kind == "returned" else None
        middle = len(cases) // 2
        parts = (cases[:middle], cases[middle:]) if named is None else ([cases[named]], [*cases[:named], *cases[named + 1 :]])
        return [verdict for part in parts for verdict in judge_together(dog, part, form, options)]
    left, verdicts = list(outcome.value.outputs), []
    for case in cases:
        mine, left = left[: len(case.expected)], left[len(case.expected) :]
        text = difference(case, mine)
        alone = judge(dog, case, form, options) if text else None
        if alone is not None and alone.status == "passed":
            alone = Verdict(case.name, case.op, form, "wrong", f"beside {', '.join(c.name for c in cases)}: {text}")
        verdicts.append(alone or Verdict(case.name, case.op, form, "passed"))
    return verdicts


def _names_something(text: str, model: bytes) -> bool:
    """Whether a message names an operator of the model, or one of its inputs."""
    graph = ModelProto.FromString(model).graph
    names = {f"input '{value.name}'" for value in graph.input}
    return any(name in text for name in names | {node.op_type for inner in graphs(graph) for node in inner.node})


def difference(case: Case, outputs: Sequence[Value]) -> str:
    """How the outputs differ from those expected, in number, type, shape or by more than the case's tolerance; empty if not."""
    kinds = [[_kind(value) for value in values] for values in (outputs, case.expected)]
    got_arrays, expected = arrays_in(outputs), arrays_in(case.expected)
    if kinds[0] != kinds[1]:
        return f"got {kinds[0]}, expected {kinds[1]}"
    terms = next((terms for pattern, terms in ROUNDED.items() if re.fullmatch(pattern, case.name)), None)
    try:
        if terms is None:
            Runner.assert_similar_outputs(expected, got_arrays, case.rtol, case.atol)
        else:
            for got, want in zip(got_arrays, expected, strict=True):
                assert_close(got, want, terms)
    except AssertionError as error:
        return " ".join(str(error).split())[:400]
    return ""


def _kind(value: Value) -> object:
    """The type and shape of a tensor, those of the elements of a sequence, or None."""
    if isinstance(value, list):
        return [_kind(element) for element in value]
    return None if value is None else (value.dtype.name, value.shape)


@functools.cache
def listed() -> dict[tuple[str, str], str]:
    """Why a case is not supported, for each case and form in the list. Raises ValueError where the list names what there is not."""
    known, found = {case.name for case in cases()}, {}
    for entry in tomllib.loads(LIST.read_text())["unsupported"]:
        for name, form in itertools.product(entry["cases"], entry["forms"]):
            if name not in known or form not in FORMS or (name, form) in found or not entry["reason"]:
                raise ValueError(f"{LIST.name}: {name} in the form {form}: expected a case, a form and a reason, each pair once")
            found[name, form] = entry["reason"]
    return found


@functools.cache
def ever_failed() -> frozenset[str]:
    """The cases that failed or were not supported at some time."""
    return frozenset(line for line in FAILED.read_text().splitlines() if not line.startswith("#"))


def unexpected(verdicts: Iterable[Verdict]) -> list[str]:
    """The verdicts that must not be: what is wrong, or unsupported and not listed, or listed and passed."""
    found = []
    for verdict in verdicts:
        is_listed = (verdict.case, verdict.form) in listed()
        if verdict.status == "passed" and is_listed:
            found.append(f"{verdict.case} ({verdict.form}) passes: take it out of {LIST.name}")
        elif verdict.status not in ("passed", "unsupported") or (verdict.status == "unsupported" and not is_listed):
            found.append(str(verdict))
    return found
