"""The forms in which a case is asked: as it is, and with inputs made constants, which folding and kernels treat in other ways."""

from collections.abc import Sequence

import numpy as np
from backend_suite.cases import Case, Value
from onnx import ModelProto, numpy_helper

FORMS = ("given", "constants", "folded", "free")
SMALL = 64  # elements; up to so many are unrolled, written into the code, or folded


def forms_of(case: Case) -> list[str]:
    """Those of `FORMS` with constants in which a case looks different from the forms before."""
    constant = {form: list(_constant(case.inputs, form)) for form in FORMS[:3]}
    return [form for i, form in enumerate(FORMS[:3]) if all(constant[form] != constant[before] for before in FORMS[:i])]


def in_form(case: Case, form: str) -> tuple[bytes, tuple[Value, ...]]:
    """The model of a case in one of `FORMS`, and what it is given when it runs.

    `constants`: all small inputs and all of integers or bools, but for the first input, are initializers. `folded`: that one too.
    Neither tells the sizes of its outputs: they must follow from the operators. `free` is `constants` with every size above 1 of the other
    inputs left free, equal ones by one name.
    """
    constant = _constant(case.inputs, form)
    if not constant and form != "free":
        return case.model, case.inputs
    model = ModelProto.FromString(case.model)
    given = [value for value in model.graph.input if value.name not in {t.name for t in model.graph.initializer}]
    model.graph.initializer.extend(numpy_helper.from_array(array, given[i].name) for i, array in constant.items())
    if model.ir_version >= 4:  # before, each initializer is an input too
        for i in constant:
            model.graph.input.remove(given[i])
    del model.graph.value_info[:]
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    if form == "free":
        for value in model.graph.input:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_value > 1:
                    dim.dim_param = f"s{dim.dim_value}"
    return model.SerializeToString(), tuple(array for i, array in enumerate(case.inputs) if i not in constant)


def _constant(inputs: Sequence[Value], form: str) -> dict[int, np.ndarray]:
    """The inputs that a form makes constants, which are tensors, by their places."""
    first = {"given": len(inputs), "constants": 1, "folded": 0, "free": 1}[form]
    arrays = {i: array for i, array in enumerate(inputs) if i >= first and isinstance(array, np.ndarray)}
    return {i: array for i, array in arrays.items() if array.size <= SMALL or array.dtype.kind in "iub"}
