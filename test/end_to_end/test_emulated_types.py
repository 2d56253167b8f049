"""Arithmetic on floats of 8 bits, natively: each op computes in f32 and rounds its result once, as `ml_dtypes` rounds; memory holds bytes."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from op_cases import case_of, with_cases
from op_sweep import Row, Sweep

import stepwell
from stepwell.dialects.core.dtypes import ELEMENT_TYPES, dtype_info, is_emulated
from stepwell.dialects.core.mlir import func, ir, make_context
from stepwell.dialects.core.types import TensorType, from_numpy
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder, op_class
from stepwell.dialects.graph.base import Elementwise, map_groups
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.dialects.support.errors import StepwellError

SMALL = [name for name in ELEMENT_TYPES if is_emulated(name)]
F = np.float32
RANDOM = np.random.default_rng(7)
Values = dict[str, ir.Value]
Arrays = dict[str, np.ndarray]


def model_of(body: Callable[[GraphBuilder, Values], Values], inputs: Arrays) -> tuple[str, WeightTable]:
    """The text of a model of graph IR, whose outputs are named as `body` names them, and its weights."""
    weights = WeightTable()

    def names(of: Mapping[str, Any]) -> ir.Attribute:
        return ir.ArrayAttr.get([ir.DictAttr.get({"stepwell.name": ir.StringAttr.get(name)}) for name in of])

    with make_context(), ir.Location.name("model"):
        module = ir.Module.create()
        types = [type_of(array).to_mlir() for array in inputs.values()]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get(types, []))
            block = main.add_entry_block()
        with ir.InsertionPoint(block):
            made = body(GraphBuilder(weights), dict(zip(inputs, block.arguments, strict=True)))
            func.ReturnOp(list(made.values()))
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [value.type for value in made.values()]))
        main.attributes["arg_attrs"], main.attributes["res_attrs"] = names(inputs), names(made)
        return str(module.operation.get_asm(enable_debug_info=True)), weights


def type_of(array: np.ndarray) -> TensorType:
    return TensorType(from_numpy(array.dtype), array.shape)


def run(body: Callable[[GraphBuilder, Values], Values], inputs: Arrays) -> tuple[Arrays, Arrays]:
    """What native code gives, and what the references of the ops give."""
    text, weights = model_of(body, inputs)
    native = stepwell.compile_ir(text, "graph", weights, threads=1, cache=False).run(inputs)
    with make_context():
        return native, evaluate(ir.Module.parse(text), weights, inputs)


def same(got: np.ndarray, want: np.ndarray) -> None:
    """The same numbers; zeros may differ in sign where an op says so."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got.astype(F), want.astype(F))


def test_all_values_and_all_pairs() -> None:
    """Of all types, in one model."""
    one: dict[str, Any] = {"relu": lambda v: np.maximum(v, 0), "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "reciprocal": np.reciprocal}
    two: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum}
    rows = {name: np.arange(256, dtype=np.uint8).view(dtype_info(name).numpy) for name in SMALL}
    columns = {f"{name} column": x.reshape(256, 1) for name, x in rows.items()}

    def body(b: GraphBuilder, v: Values) -> Values:
        results = {}
        for name in SMALL:
            x, column = v[name], v[f"{name} column"]
            results.update({f"{name} {op}": getattr(b, op)(x) for op in one})
            results.update({f"{name} {op}": getattr(b, op)(column, x) for op in two})
            results.update({f"{name} less": b.less(column, x), f"{name} chain": b.mul(b.add(column, x), x)})
        return results

    got, referred = run(body, {**rows, **columns})
    for name, x in rows.items():
        wide, column = x.astype(F), x.astype(F).reshape(256, 1)
        with np.errstate(all="ignore"):
            for op, function in one.items():
                same(got[f"{name} {op}"], function(wide).astype(x.dtype))
            for op, function in two.items():
                same(got[f"{name} {op}"], function(column, wide).astype(x.dtype))
            same(got[f"{name} chain"], ((column + wide).astype(x.dtype).astype(F) * wide).astype(x.dtype))
            np.testing.assert_array_equal(got[f"{name} less"], column < wide)
    for name, array in got.items():
        same(array, referred[name])


def test_sums_round_once() -> None:
    """Numbers whose sums are exact in f32 and far from it in 8 bits."""
    dtype = dtype_info("f8E4M3FN").numpy

    def numbers(*shape: int) -> np.ndarray:
        return (RANDOM.integers(-6, 7, shape) / 4).astype(dtype)

    image, filters, a, w = numbers(2, 3, 9, 8), numbers(4, 3, 3, 3), numbers(40, 70), numbers(70, 24)
    inputs = {"image": image, "filters": filters, "a": a, "b": numbers(70, 24)}

    def body(b: GraphBuilder, v: Values) -> Values:
        window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
        return {
            "conv": b.relu(b.conv(v["image"], v["filters"], **window)), "matmul": b.matmul(v["a"], v["b"]),
            "weights": b.matmul(v["a"], b.weight("w", w)), "softmax": b.softmax(v["a"], axis=1), "moved": b.transpose(v["a"], perm=(1, 0)),
            "sum": b.reduce_sum(v["a"], axes=(1,), keepdims=True), "greatest": b.reduce_max(v["a"], axes=(0,), keepdims=False),
        }  # fmt: skip

    got, referred = run(body, inputs)
    wide = {key: value.astype(np.float64) for key, value in inputs.items()}
    same(got["matmul"], (wide["a"] @ wide["b"]).astype(F).astype(dtype))
    same(got["weights"], (wide["a"] @ w.astype(np.float64)).astype(F).astype(dtype))
    same(got["sum"], wide["a"].sum(axis=1, keepdims=True).astype(F).astype(dtype))
    same(got["greatest"], a.max(axis=0))
    same(got["moved"], a.T.copy())
    padded = np.pad(wide["image"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    same(got["conv"], np.maximum(np.einsum("nchwij,fcij->nfhw", windows, wide["filters"]), 0).astype(F).astype(dtype))
    powers = np.exp(wide["a"])
    near = [(powers / powers.sum(axis=1, keepdims=True) * (1 + d)).astype(F).astype(dtype).astype(F) for d in (-1e-6, 1e-6)]
    assert ((near[0] <= got["softmax"].astype(F)) & (got["softmax"].astype(F) <= near[1])).all()
    for name, array in got.items():
        if name != "softmax":
            same(array, referred[name])


SIZED = ("kept_boxes", "non_max_suppression", "non_zero", "non_zero_places", "range", "top_k", "unique")
"""Ops whose results have sizes that follow from data, which a model of inputs alone does not let them have."""


def cases(name: str) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """Each op that takes floats, but for the element-wise ones, with operands and attributes of the type."""
    dtype, found = dtype_info(name).numpy, []
    for mnemonic in sorted({*with_cases()} - {*SIZED}):
        if op_class(mnemonic).has_trait(Elementwise) or not op_class(mnemonic).OPERATION_NAME.startswith("graph."):
            continue  # other dialects' ops are made by passes, behind the one that leaves no arithmetic in 8 bits
        try:
            case = case_of(mnemonic, Sweep(Row(zlib.crc32(mnemonic.encode()), "f32", 3, (2, 3, 4, 5), False), room=200))
            operands = map_groups(lambda array: array.astype(dtype) if array.dtype == F else array, case.operands)
            types = op_class(mnemonic).infer(*map_groups(type_of, operands), **case.attributes)
        except (LookupError, StepwellError):
            continue
        results = types if isinstance(types, tuple) else (types,)
        if any(array.dtype == dtype for array in arrays_of(operands)) and all(kind.is_static for kind in results):
            found.append((mnemonic, operands, case.attributes))
    return found


def arrays_of(groups: Sequence[Any]) -> list[np.ndarray]:
    return [array for group in groups if group is not None for array in (group if isinstance(group, list) else [group])]


def test_every_op_that_is_not_element_wise() -> None:
    """All in one model. A result may be a neighbour of the reference's, which sums in f64."""
    every, info = cases("f8E4M3FN"), dtype_info("f8E4M3FN")
    assert len(every) > 40
    inputs = {f"{mnemonic}.{n}": array for mnemonic, groups, _ in every for n, array in enumerate(arrays_of(groups))}

    def body(b: GraphBuilder, v: Values) -> Values:
        results = {}
        for mnemonic, groups, attributes in every:
            values = iter([value for name, value in v.items() if name.partition(".")[0] == mnemonic])
            made = b.create(op_class(mnemonic), map_groups(lambda _, values=values: next(values), groups), attributes)
            results.update({f"{mnemonic}.{n}": result for n, result in enumerate(made.operation.results)})
        return results

    got, referred = run(body, inputs)
    least = float(np.array(1, np.uint8).view(info.numpy).astype(F))
    for name, want in referred.items():
        assert (got[name].dtype, got[name].shape) == (want.dtype, want.shape), name
        near, exact = got[name].astype(np.float64), want.astype(np.float64)
        close = (near == exact) | (np.isnan(near) & np.isnan(exact))
        if got[name].dtype == info.numpy:
            close |= np.abs(near - exact) <= np.maximum(info.eps * np.abs(exact), least)
        assert close.all(), f"{name}: {near[~close][:4]}, expected {exact[~close][:4]}"


def test_f64_rounds_what_is_stored_in_8_bits() -> None:
    """`--check f64` knows no rounding of f32, but that of each op's result to the type that it is stored in."""
    x = np.arange(256, dtype=np.uint8).view(dtype_info("f8E5M2").numpy)
    text, weights = model_of(lambda b, v: {"y": b.mul(b.add(v["x"], v["x"]), v["x"])}, {"x": x})
    got = stepwell.compile_ir(text, "graph", weights, threads=1, cache=False).run({"x": x})
    (check,) = stepwell.compare_with_f64(stepwell.read_ir(text, "graph", weights), {"x": x}, got)
    assert check.max_abs == 0
