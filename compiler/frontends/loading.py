"""Loads a model through the front end that accepts it."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.dialects.core.sizes import Assumption, assumptions
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.base import FrontEnd, ImportedModel, ImportOptions, NeedsError
from stepwell.frontends.registry import checked_result, find_frontend, normal
from stepwell.signature import shape_of, tensors_of

if TYPE_CHECKING:
    from stepwell.dialects.core.mlir import ir


def load_model(source: object, context: "ir.Context", options: ImportOptions) -> ImportedModel:
    """Import a model. Raises InputError if no front end accepts it, ModelError if a plugin's front end returns an invalid one, and like `load`."""
    front_end, source = find_frontend(source), normal(source)
    load = partial(front_end.load, source, context, options)
    with assumptions() as assumed:
        imported = checked_result(front_end, "load", load, "an ImportedModel", lambda made: isinstance(made, ImportedModel))
    if not type(front_end).__module__.startswith("stepwell."):
        _check(front_end, source, imported)
    note_assumptions(imported.module, assumed)
    return imported


def note_assumptions(module: "ir.Module", assumed: Sequence[Assumption]) -> None:
    """Write to a module what was assumed of sizes when it was made or changed, each once."""
    from stepwell.dialects.core.module_info import ModuleInfo

    if assumed:
        info = ModuleInfo(module)
        with module.context:
            info.assumptions = list(dict.fromkeys([*info.assumptions, *assumed]))


def load_for(source: object, context: "ir.Context", inputs: Mapping[str, Any]) -> tuple[ImportedModel, dict[str, np.ndarray]]:
    """Import a model for these inputs: for their shapes, and for the values of those whose values are needed. Returns the other inputs too.

    Sequences are lists of arrays; their tensors are returned by their own names.
    """
    known: dict[str, np.ndarray] = {}
    shapes = {name: shape_of(value) for name, value in inputs.items()}
    inputs = tensors_of(inputs)
    while True:
        try:
            made = load_model(source, context, ImportOptions(shapes=shapes, values=known))
        except NeedsError as error:
            more = {name: inputs[name] for name in error.needs.values if name in inputs and name not in known}
            if not more:
                raise
            known |= more
        else:
            return made, {name: array for name, array in inputs.items() if name not in known}


def _check(front_end: FrontEnd, source: object, imported: ImportedModel) -> None:
    """Raise ModelError unless the module verifies, its `@main` has the stated types, and files lie where the cache finds them."""
    from stepwell.dialects.core.mlir import func, ir

    who, module = f"front end '{front_end.name}'", imported.module
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise ModelError(f"{who}: its module does not verify: {'; '.join(d.message for d in error.error_diagnostics) or error}") from None
    functions = list(module.body.operations)
    main = functions[0] if len(functions) == 1 else None
    if not isinstance(main, func.FuncOp) or main.sym_name.value != "main":
        raise ModelError(f"{who}: expected a module with one function, @main")
    with module.context, module.operation.location:
        stated = [[kind.to_mlir() for _, kind in side] for side in (imported.inputs, imported.outputs)]
    for side, want, have in zip(("inputs", "outputs"), stated, (main.type.inputs, main.type.results), strict=True):
        if want != list(have):
            raise ModelError(f"{who}: its {side} are ({', '.join(map(str, want))}), but those of its @main are ({', '.join(map(str, have))})")
    folder = source.parent.absolute() if isinstance(source, Path) else None
    outside = [str(file) for file in imported.files if folder is None or not file.is_relative_to(folder)]
    if outside:
        raise ModelError(f"{who}: it has read {outside[0]}, which does not lie beside the model or below; then it cannot be cached")
