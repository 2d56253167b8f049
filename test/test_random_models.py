"""Random nets through the whole compiler: as ONNX Runtime computes them, and the same on any number of threads and from run to run."""

from hypothesis import given, settings
from random_models.comparison import Example, check, examples


@settings(max_examples=20)
@given(examples("convolutions"))
def test_convolutions(example: Example) -> None:
    check(example)


@settings(max_examples=20)
@given(examples("matmuls"))
def test_matmuls(example: Example) -> None:
    check(example)
