"""Ops that are checked together: each that is wrong or cannot be lowered is named, and the others are judged all the same."""

import numpy as np
import one_op
import pytest
from every import every
from one_op import Bound, check_op, check_within, ops_together

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
CONV = {"strides": (1, 1), "dilations": (1, 1), "group": 1}


@ops_together
@every("mnemonic", ["relu", "neg", "abs", "floor"])
def test_right_ops(mnemonic: str) -> None:
    check_op(mnemonic, [X], terms=0, ulps=0)


def test_one_module_holds_many(monkeypatch: pytest.MonkeyPatch) -> None:
    count, execute = [], one_op.execute
    monkeypatch.setattr(one_op, "execute", lambda *given: count.append(1) or execute(*given))
    test_right_ops()
    assert len(count) == 1


def test_those_that_fail_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = one_op.reference
    monkeypatch.setattr(one_op, "reference", lambda name, *given, **more: tuple(r + (name == "neg") for r in reference(name, *given, **more)))

    @ops_together
    @every("mnemonic", ["relu", "neg", "conv", "abs", "floor"])
    def test(mnemonic: str) -> None:
        if mnemonic == "conv":  # whose padding must be made explicit before
            image = X.reshape(1, 1, 3, 4)
            check_within("conv", [image, image[..., :2, :2].copy()], Bound(9, 1, None), {**CONV, "pads": (1, 0, 0, 0)})
        else:
            check_op(mnemonic, [X])

    with pytest.raises(AssertionError) as caught:
        test()
    said = str(caught.value)
    assert said.startswith("2 of 5 cases failed: neg, conv\n")
    assert "neg(tensor<3x4xf32>)" in said
    assert "make-padding-explicit" in said


def test_no_operand_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    run_kernels = one_op.run_kernels

    def spoil(module, arrays, shapes):  # type: ignore[no-untyped-def]
        results = run_kernels(module, arrays, shapes)
        arrays[0][0].flat[0] += 1
        return results

    monkeypatch.setattr(one_op, "run_kernels", spoil)
    with pytest.raises(AssertionError, match="an operand has changed"):
        check_op("neg", [X])
    with pytest.raises(AssertionError, match="checks no op"):
        ops_together(lambda: None)()
