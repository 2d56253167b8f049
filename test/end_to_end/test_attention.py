"""ONNX's Attention, compiled, against ONNX's own evaluator: every input, attribute and output, in combinations."""

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import native_checks
import numpy as np
import pytest
from covering import every_by_day
from every import every, running
from importing import model, node
from native_checks import Arrays, Check, natively_together
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.dialects.support.errors import ModelError, UnsupportedError

BATCH, QUERIES, KEYS, SIZE, VALUE_SIZE, PAST = 2, 3, 5, 4, 6, 2
INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
MASKS = ("none", "keys", "row", "queries", "heads", "shared", "all", "batches")
PRECISIONS = {None: None, "f16": 10, "f32": 1, "f64": 11}


@dataclass(frozen=True)
class Call:
    """One node with one set of inputs."""

    opset: int = 25
    dtype: Any = np.float32
    flat: bool = False
    heads: tuple[int, int] = (2, 2)
    mask: str = "none"
    mask_dtype: Any = bool
    short: bool = False
    cache: str = "none"  # "past" or "lengths"
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    scale: float | None = None
    softcap: float = 0.0
    precision: str | None = None
    mode: int = 0
    outputs: int = 4

    @property
    def keys(self) -> int:
        return KEYS + PAST * (self.cache == "past")

    def inputs(self, seed: int) -> dict[str, np.ndarray]:
        """Inputs by name; masks in the shape that the node takes."""
        rng = np.random.default_rng(seed)

        def floats(*shape: int) -> np.ndarray:
            return rng.normal(0.2, 1.0, shape).astype(self.dtype)

        many, few = self.heads
        found = {}
        for name, heads, length, size in (("Q", many, QUERIES, SIZE), ("K", few, KEYS, SIZE), ("V", few, KEYS, VALUE_SIZE)):
            found[name] = floats(BATCH, length, heads * size) if self.flat else floats(BATCH, heads, length, size)
        if self.mask != "none":
            shape = self.mask_shape()
            given = rng.random(shape) < 0.6 if self.mask_dtype is bool else rng.normal(size=shape).astype(self.mask_dtype)
            found["attn_mask"] = given
        if self.cache == "past":
            found["past_key"], found["past_value"] = floats(BATCH, few, PAST, SIZE), floats(BATCH, few, PAST, VALUE_SIZE)
        if self.cache == "lengths":
            found["nonpad_kv_seqlen"] = rng.integers(0, KEYS + 1, BATCH)
        return found

    def mask_shape(self) -> tuple[int, ...]:
        last, heads = self.keys - self.short, self.heads[0]
        return {
            "keys": (last,), "row": (1, last), "queries": (QUERIES, last), "heads": (heads, QUERIES, last), "shared": (1, QUERIES, last),
            "all": (BATCH, heads, QUERIES, last), "batches": (BATCH, 1, 1, last),
        }[self.mask]  # fmt: skip

    def attributes(self) -> dict[str, Any]:
        given: dict[str, Any] = {"is_causal": int(self.causal), "softcap": self.softcap, "qk_matmul_output_mode": self.mode}
        if self.flat:
            given |= {"q_num_heads": self.heads[0], "kv_num_heads": self.heads[1]}
        if self.window != (-1, -1):
            given |= {"left_window_size": self.window[0], "right_window_size": self.window[1]}
        if self.scale is not None:
            given["scale"] = self.scale
        if self.precision is not None:
            given["softmax_precision"] = PRECISIONS[self.precision]
        return given


def proto(call: Call, inputs: dict[str, np.ndarray], expected: list[np.ndarray], constants: tuple[str, ...] = ()) -> ModelProto:
    given = [name if name in inputs else "" for name in INPUTS]
    while not given[-1]:
        given.pop()
    outputs = named_outputs(call)
    return model(
        [node("Attention", given, outputs, **call.attributes())],
        {name: array for name, array in inputs.items() if name not in constants},
        dict(zip(filter(None, outputs), expected, strict=True)),
        {name: inputs[name] for name in constants},
        opset=call.opset,
        ir_version=11,
    )


def compiled(call: Call, inputs: dict[str, np.ndarray], expected: list[np.ndarray], constants: tuple[str, ...] = ()) -> list[np.ndarray]:
    model = stepwell.compile(proto(call, inputs, expected, constants), cache=False, threads=1)
    return model(*(array for name, array in inputs.items() if name not in constants))


def reference(call: Call, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX's evaluator gives, in f32 for narrower types (it would round after each step), for masks written out: it takes sizes from them."""
    wide = {name: array.astype(np.float32) if array.dtype == call.dtype and array.dtype.itemsize < 4 else array for name, array in inputs.items()}
    if "attn_mask" in wide:
        full = (BATCH, call.heads[0], QUERIES, wide["attn_mask"].shape[-1])
        wide["attn_mask"] = np.ascontiguousarray(np.broadcast_to(wide["attn_mask"], full))
    given = [name if name in wide else "" for name in INPUTS]
    while not given[-1]:
        given.pop()
    outputs = named_outputs(call)
    declared = dict.fromkeys(filter(None, outputs), np.zeros((1, 1, 1, 1), np.float32))
    whole = model([node("Attention", given, outputs, **call.attributes())], wide, declared, opset=call.opset, ir_version=11)
    made = [np.asarray(array).astype(call.dtype) for array in ReferenceEvaluator(whole).run(None, wide)]
    if call.mode == 0 and call.softcap and call.outputs == 4:  # the evaluator gives the capped ones, against ONNX's text
        made[-1] = reference(replace(call, softcap=0.0), inputs)[-1]
    return made


def check(call: Call, seed: int = 0, constants: tuple[str, ...] = ()) -> None:
    """Compare compiled code with the evaluator. Within `natively_together` it is at the test's end."""
    inputs = call.inputs(seed)
    expected = reference(call, inputs)
    rounding = float(ml_dtypes.finfo(call.dtype).eps)
    coarse = {"f16": 2.0**-10, "f32": 2.0**-23}.get(call.precision or "", 0.0)  # what the softmax may be off by

    def judge(got: Arrays) -> None:
        for name, want in zip(filter(None, named_outputs(call)), expected, strict=True):
            ours = got[name]
            assert (ours.dtype, ours.shape) == (want.dtype, want.shape), name
            bound = 0.0 if name.startswith("present") else max(16 * rounding, 4 * coarse)
            np.testing.assert_allclose(ours.astype(np.float64), want.astype(np.float64), rtol=bound, atol=bound, err_msg=name)

    given = {name: array for name, array in inputs.items() if name not in constants}
    options = (("cache", False), ("threads", 1))
    native_checks.check(Check("-".join(running), proto(call, inputs, expected, constants), given, judge, options))


def drawn(seed: int) -> Call:
    """A combination at random; what cannot go together is not."""
    rng = np.random.default_rng(seed)

    def one(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    opset = one(23, 24, 25)
    return Call(
        opset=opset,
        dtype=one(np.float32, np.float32, np.float64, np.float16, ml_dtypes.bfloat16),
        flat=one(False, True),
        heads=one((2, 2), (4, 2), (3, 1), (6, 3)),
        mask=one(*MASKS),
        mask_dtype=one(bool, np.float32),
        short=opset > 23 and one(False, True),
        cache=one("none", "past", *["lengths"] * (opset > 23)),
        causal=one(False, True),
        window=one((-1, -1), (1, -1), (2, 1), (0, 0), (-1, 2)) if opset > 24 else (-1, -1),
        scale=one(None, 0.25, 4.0),  # the evaluator takes the root in f32: these are exact
        softcap=one(0.0, 1.5),
        precision=one(None, "f32", "f64", "f16"),
        mode=one(0, 1, 2, 3),
        outputs=one(1, 3, 4, 4),
    )


def named_outputs(call: Call) -> list[str]:
    """What the node gives; without past keys there are no present ones where lengths are given."""
    without = call.cache == "lengths"
    count = 1 if without and call.outputs == 3 else call.outputs
    return ["" if without and name.startswith("present") else name for name in OUTPUTS[:count]]


# Together they take every path through the compiler that any of the 40 takes, and have every value that is drawn.
DAY = [1, 3, 4, 5, 7, 8, 9, 15, 18, 24, 26, 28, 31, 34, 36, 37]


@natively_together
@every_by_day("seed", range(40), DAY)
def test_combinations(seed: int) -> None:
    call = drawn(seed)
    if call.mask_dtype is not bool:
        call = replace(call, mask_dtype=call.dtype)
    constants = [(), ("attn_mask",), ("K", "V", "attn_mask"), ()][seed % 4]
    check(call, seed, tuple(name for name in constants if name in call.inputs(seed)))


@natively_together
@every("mode", range(4))
def test_scores_are_given_as_asked(mode: int) -> None:
    check(Call(mode=mode, softcap=1.5, mask="queries", cache="past", causal=True))


@natively_together
@every("mask", [m for m in MASKS if m != "none"])
@every("mask_dtype", [bool, np.float32])
def test_masks_of_all_shapes(mask: str, mask_dtype: Any) -> None:
    check(Call(mask=mask, mask_dtype=mask_dtype, heads=(4, 2), short=True), seed=3)


def test_a_query_that_sees_no_key_gives_zeros() -> None:
    call = Call(mask="queries", mode=3)
    inputs = call.inputs(1)
    inputs["attn_mask"][1] = False
    expected = reference(call, inputs)
    assert not expected[0][:, :, 1].any()
    assert not expected[3][:, :, 1].any()
    for constants in ((), ("attn_mask",)):
        for ours, want in zip(compiled(call, inputs, expected, constants), expected, strict=True):
            np.testing.assert_allclose(ours, want, rtol=1e-5, atol=1e-6)


def test_a_negative_scale() -> None:
    call = Call(scale=-0.5, outputs=1)
    inputs = call.inputs(2)
    scores = inputs["Q"] @ inputs["K"].swapaxes(-1, -2) * np.float32(-0.5)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    want = powers / powers.sum(-1, keepdims=True) @ inputs["V"]
    np.testing.assert_allclose(compiled(call, inputs, [want])[0], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "missing", "message"),
    [
        ({}, ("past_value",), "past_key and past_value must be"),
        ({"nonpad_kv_seqlen": np.array([1, 2])}, (), "past_key and nonpad_kv_seqlen must not be given together|nonpad_kv_seqlen cannot be combined"),
        ({"attn_mask": np.ones((QUERIES, 9), bool)}, (), "is for more than 7 keys"),
        ({"attn_mask": np.ones((2, 7), bool)}, (), "does not broadcast to scores"),
        ({"K": np.zeros((BATCH, 3, KEYS, SIZE), np.float32)}, (), "heads|do not fit together|must be"),
    ],
)
def test_inputs_that_do_not_fit(changed: dict[str, np.ndarray], missing: tuple[str, ...], message: str) -> None:
    call = Call(cache="past")
    inputs = {name: array for name, array in {**call.inputs(0), **changed}.items() if name not in missing}
    inputs = {name: inputs[name] for name in INPUTS if name in inputs}
    with pytest.raises(ModelError, match=message):
        compiled(call, inputs, [np.zeros((1, 1, 1, 1), np.float32)] * 4)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"mode": 4}, "qk_matmul_output_mode must be from 0 to 3, got 4"),
        ({"softcap": -1.0}, "softcap must be 0 or more"),
        ({"window": (-2, 0)}, "left_window_size must be -1|the window sizes must be"),
        ({"flat": True, "heads": (3, 2)}, "3 heads of queries do not share 2 of keys|do not fit together"),
    ],
)
def test_attributes_that_do_not_fit(attributes: dict[str, Any], message: str) -> None:
    call = Call(**attributes)
    with pytest.raises((ModelError, UnsupportedError), match=message):
        compiled(call, call.inputs(0), [np.zeros((1, 1, 1) if call.flat else (1, 1, 1, 1), np.float32)] * 4)
