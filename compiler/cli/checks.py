"""The references for `stepwell run --check`: ONNX Runtime, the reference semantics of ops, also in f64, other levels, saved outputs."""

import sys
from pathlib import Path

from stepwell.analysis.archives import Archive
from stepwell.analysis.compare import Arrays, OutputCheck, compare, run_onnxruntime
from stepwell.analysis.data_files import as_type
from stepwell.cli.common import FAULT, OK
from stepwell.cli.display import Progress, print_table, say
from stepwell.cli.session import Session
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.names import file_names
from stepwell.passes.framework.levels import IMPORTED
from stepwell.signature import tensors_of

MEASURES = ("max abs error", "max rel error", "of the scale", "tolerance", "verdict")


def check_outputs(against: tuple[str, str | None], session: Session | None, inputs: Arrays, outputs: Arrays) -> int:
    """Compare outputs with the reference `against`, a kind and a file; returns the exit status. Raises StepwellError or UsageError.

    The `session` is that of the model, which checks of its own IR need.
    """
    kind, source = against
    if kind == "levels":
        assert session is not None
        return _check_levels(session, inputs, outputs)
    with Progress(doing=f"check against {kind}"):
        if kind == "f64":
            assert session is not None
            from stepwell.analysis.interpretation import compare_with_f64

            results = compare_with_f64(session.start({name: array.shape for name, array in inputs.items()}), inputs, outputs)
        elif source is None:
            assert session is not None
            from stepwell.analysis.interpretation import interpret

            results = compare(outputs, interpret(session.read(), inputs))
        elif kind == "file":
            kind, results = source, compare(outputs, _saved(source, outputs))
        elif kind == "reference":
            results = compare(outputs, _evaluated(source, inputs))
        else:
            results = compare(outputs, tensors_of(run_onnxruntime(source, inputs)))
    if kind == "f64":
        rows = [[*verdict(r)[:-2], "" if r.ulps is None or r.problem else f"{r.ulps:.3g}", *verdict(r)[-2:]] for r in results]
        print_table(("against f64", *MEASURES[:-2], "ULP", *MEASURES[-2:]), rows)
        say("f64 is the network evaluated by Stepwell's own references (numpy) in f64, not by another engine")
    else:
        print_table((f"against {kind}", *MEASURES), [verdict(r) for r in results])
    wrong = [r.name for r in results if not r.ok]
    if wrong:
        say(f"stepwell run: error: {len(wrong)} of {len(results)} outputs differ from {kind}: {', '.join(wrong)}", file=sys.stderr)
    return FAULT if wrong else OK


def _saved(file: str, outputs: Arrays) -> Arrays:
    """The outputs that `--save` kept of another run. Raises InputError if the model of that run had other outputs."""
    if not Path(file).is_file():
        raise InputError(f"--check {file}: there is no such file; stepwell run --save {file} writes it")
    names, saved = file_names(outputs, folders=True), Archive(Path(file))
    if set(saved) != set(names.values()):
        raise InputError(f"--check {file}: expected outputs {', '.join(names.values())}, it has {', '.join(saved) or 'none'}")
    return {name: as_type(saved[chosen], outputs[name].dtype) for name, chosen in names.items()}


def verdict(result: OutputCheck) -> list[str]:
    """A row of a table with `MEASURES`."""
    if result.problem is not None:
        return [result.name, result.problem, "", "", "", "WRONG"]
    errors = (result.max_abs, result.max_rel, result.scale_rel, result.tolerance)
    return [result.name, *(f"{error:.3g}" for error in errors), "ok" if result.ok else "WRONG"]


def _check_levels(session: Session, inputs: Arrays, outputs: Arrays) -> int:
    from stepwell.analysis.bisect import plugin_definitions
    from stepwell.analysis.interpretation import compare_levels

    lowered = session.lower(session.options.start or IMPORTED, {name: array.shape for name, array in inputs.items()})
    of_plugins = plugin_definitions(lowered.module.operation)
    with Progress(doing="run what the levels mean"):
        steps = compare_levels(lowered, inputs, outputs)
    print_table(("level", "against", "output", *MEASURES), [[step.below, step.above, *verdict(r)] for step in steps for r in step.outputs])
    wrong = [step for step in steps if not step.ok]
    if wrong:
        names = ", ".join(r.name for r in wrong[0].outputs if not r.ok)
        if of_plugins and wrong[0].below == lowered.path.packed:
            say(f"{of_plugins}\n")
        text = f"the meaning changed between {wrong[0].above} and {wrong[0].below}: outputs {names} (stepwell bisect says in which kernel)"
        say(f"stepwell run: error: {text}", file=sys.stderr)
    return FAULT if wrong else OK


def _evaluated(source: str, inputs: Arrays) -> Arrays:
    """The outputs of a model by the reference semantics of its graph ops."""
    from stepwell.dialects.core.mlir import make_context
    from stepwell.dialects.interpreter.evaluate import evaluate
    from stepwell.frontends.loading import load_for

    imported, taken = load_for(source, make_context(), inputs)
    return evaluate(imported.module, imported.weights, taken)
