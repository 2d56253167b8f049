"""Models that are checked together: each that is wrong or does not compile is named, and the others are judged all the same."""

import numpy as np
import pytest
from every import every
from importing import check_native, floats, model, node
from native_checks import Check, check, natively_together

import stepwell

X = floats(3, 4)


@natively_together
@every("op", ["Relu", "Neg", "Abs", "Floor"])
def test_right_models(op: str) -> None:
    check_native(node(op, ["x"]), {"x": X})


def test_one_model_holds_many(monkeypatch: pytest.MonkeyPatch) -> None:
    count, compile_model = [], stepwell.compile
    monkeypatch.setattr(stepwell, "compile", lambda model: count.append(1) or compile_model(model))
    test_right_models()
    assert len(count) == 1


def test_those_that_fail_are_named() -> None:
    @natively_together
    @every("op", ["Relu", "Neg", "Nonesuch", "Abs", "Floor"])
    def test(op: str) -> None:
        wrong = {"Neg": [X], "Nonesuch": [X]}
        check_native(node(op, ["x"]), {"x": X}, expected=wrong.get(op))

    with pytest.raises(AssertionError) as caught:
        test()
    said = str(caught.value)
    assert said.startswith("2 of 5 cases failed: Neg, Nonesuch\n")
    assert "Mismatched elements" in said


def test_each_number_of_threads_is_judged() -> None:
    judged = []

    @natively_together
    def test() -> None:
        for name in "ab":
            proto = model([node("Neg", ["x"])], {"x": X}, {"y": X})
            check(Check(name, proto, {"x": X}, lambda got, name=name: judged.append((name, (got["y"] == -X).all())), threads=(1, 2)))  # type: ignore[misc]

    test()
    assert judged == [("a", True), ("a", True), ("b", True), ("b", True)]


def test_inputs_as_constants_are_checks_too() -> None:
    @natively_together
    @every("first", [True])
    def test(first: bool) -> None:
        check_native(node("Add", ["x", "y"], ["z"]), {"x": X, "y": X}, outputs=["z"], expected=[2 * X + 1 if first else X])

    with pytest.raises(AssertionError, match="2 of 2 cases failed: True, True"):
        test()
    with pytest.raises(AssertionError, match="checks no model"):
        natively_together(lambda: None)()
    assert np.isfinite(X).all()
