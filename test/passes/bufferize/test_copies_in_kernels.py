"""Kernels compute where their results lie and read their operands where these lie, whatever the sizes: what is copied is listed here."""

from typing import Any

import pytest

import networks
import stepwell
from stepwell.analysis.explain import Explanation

RECURRENT = ("lstm", "gru")  # the state goes from round to round, and to the results
LITERAL = "sizes"  # a few numbers, computed one by one


def copies(name: str, *, bound: bool = False, **sizes: int) -> list[str]:
    """The kernels of a network of free sizes that copy what they read or compute, each with what."""
    network = networks.FREE[name]
    model = network.build(0, **(sizes or network.small))
    told, options = Explanation(), dict[str, Any]()
    if bound:
        given = {value.name for value in model.graph.output}
        pairs = {value.name: value.name.replace("past_key_values", "present") for value in model.graph.input}
        options["bind"] = {taker: giver for taker, giver in pairs.items() if giver in given}
    stepwell.lower(model, "affine", specialise="never", instrumentation=told, **options)
    found = [f"{d.kernel}: {d.what}" for d in told.decisions.declined if d.by == "bufferize" and d.op == "memref.copy" and d.kernel]
    return [copy for copy in found if not copy.startswith((*RECURRENT, LITERAL))]


@pytest.mark.parametrize("name", networks.FREE)
def test_kernels_of_any_size_copy_nothing(name: str) -> None:
    allowed = ["kept_boxes"] if name == "detector" else []  # how many there are
    assert [copy for copy in copies(name) if not copy.startswith(tuple(allowed))] == []


@pytest.mark.parametrize("sizes", [{}, {"layers": 1, "width": 768, "heads": 12, "vocabulary": 101}])
def test_a_cache_is_read_where_it_lies(sizes: dict[str, int]) -> None:
    """Heads of as many elements as real ones have: their loops are merged with those over the batch."""
    assert copies("gpt", bound=True, **sizes) == []


def test_a_cache_of_shared_heads_is_read_where_it_lies() -> None:
    assert copies("llama", bound=True) == []
