"""Random nets through the whole compiler: as ONNX Runtime computes them, and the same on any number of threads and from run to run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_random import Random
from random_models.comparison import TARGETS, Example, check, compare, judged
from random_models.convolutions import convolution_net
from random_models.matmuls import matmul_net


@st.composite
def examples(draw, make):
    return Example.of(make(Random(draw)), draw(st.sampled_from(TARGETS)))


@settings(max_examples=20)
@given(examples(convolution_net))
def test_convolutions(example):
    check(example)


@settings(max_examples=20)
@given(examples(matmul_net))
def test_matmuls(example):
    check(example)
