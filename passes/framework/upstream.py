"""Upstream's passes: their names and options, and pass managers for them with helpful errors."""

import difflib
import re
from collections.abc import Collection

from stepwell.dialects.core.mlir import ir, pass_manager, passmanager
from stepwell.dialects.support.errors import PipelineError
from stepwell.passes.framework.pipeline import MODULE, Element, Step, flatten, parse_pipeline
from stepwell.passes.framework.registry import passes
from stepwell.passes.framework.upstream_names import NAMES, SUMMARIES


def upstream_passes() -> dict[str, str]:
    """Maps the name of each of upstream's passes and pipelines to the operation it runs on, in alphabetical order."""
    return dict(sorted((name, anchor) for anchor, names in NAMES.items() for name in names))


def upstream_summary(name: str) -> str:
    """The summary of an upstream pass; empty if it has no description yet."""
    return SUMMARIES.get(name, "")


def upstream_options(name: str, context: ir.Context) -> dict[str, str]:
    """The options of an upstream pass with their defaults; none for a pipeline. Raises PipelineError if there is no such pass."""
    anchor = upstream_passes().get(name, MODULE)
    step = Step(Element(name), () if anchor == MODULE else (anchor,))
    [*steps] = flatten(parse_pipeline(str(manager_of(step, context))))
    return steps[0].element.options if len(steps) == 1 and steps[0].name == name else {}


def manager_of(step: Step, context: ir.Context) -> passmanager.PassManager:
    """A pass manager for one upstream pass, which does not verify. Raises PipelineError if the pass, an option or the nesting is wrong."""
    try:
        manager = pass_manager(f"{MODULE}({step})", context)
    except ValueError as error:
        raise PipelineError(_explain(step, str(error), context)) from None
    manager.enable_verifier(False)  # the runner verifies, after our passes and upstream's alike
    return manager


def _explain(step: Step, message: str, context: ir.Context) -> str:
    name = step.name
    if "does not refer to a registered pass" in message:
        return f"there is no pass '{name}'{did_you_mean(name)}"
    if restricted := re.search(r"restricted to '([\w.]+)'", message):
        anchor = restricted.group(1)
        return f"pass '{name}' runs on {anchor}: " + (f"it cannot be nested in {step.path[-1]}" if step.path else f"write {anchor}({step.element})")
    options = upstream_options(name, context) if step.element.options else {}
    if unknown := re.search(r"no such option (\S+)", message):
        return f"pass '{name}' has no option '{unknown.group(1)}'; it has: {', '.join(options) or 'none'}"
    if step.element.options:
        defaults = " ".join(f"{option}={options[option]}" for option in step.element.options if option in options)
        return f"pass '{name}': a value does not fit in '{step.element}'" + (f"; defaults: {defaults}" if defaults else "")
    return f"pass '{name}': {' '.join(message.split())}"


RENAMED = {"block-channels": "convert-layout", "use-panels": "pack-matmul"}
"""Passes that had another name until November 2026."""


def close_names(name: str, among: Collection[str], *, n: int = 1) -> list[str]:
    """Up to `n` names that an unknown one may mean: the new name of a renamed pass, else names with similar spelling."""
    new = RENAMED.get(name)
    return [new] if new is not None and new in among else difflib.get_close_matches(name, among, n=n)


def did_you_mean(name: str, among: Collection[str] = ()) -> str:
    """The end of an error about an unknown pass: similar names in `among`, or else among all of ours and upstream's."""
    close = close_names(name, list(among) or [*passes(), *upstream_passes()], n=3)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are: {', '.join(dict.fromkeys(among))}" if among else "; see stepwell-opt --list-passes"
