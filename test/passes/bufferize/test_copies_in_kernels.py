"""Kernels compute where their results lie and read their operands where these lie, whatever the sizes: what is copied is listed here."""

import re

import onnx
import pytest
from covering import by_day

import networks
import stepwell
from stepwell.analysis.explain import Explanation

RECURRENT = ("lstm", "gru")  # the state goes from round to round, and to the results
GROUPED = {"groups": 2, "inner": 100}
LITERAL = "sizes"  # a few numbers, computed one by one


def pairs(model: onnx.ModelProto) -> dict[str, str]:
    """The caches of a decoder: of each input the output."""
    given = {value.name for value in model.graph.output}
    named = {value.name: value.name.replace("past_key_values", "present") for value in model.graph.input}
    return {taker: giver for taker, giver in named.items() if giver in given}


def copies(name: str, *, bound: bool = False, **sizes: int) -> list[str]:
    """The kernels of a network of free sizes that copy what they read or compute, each with what."""
    network = networks.FREE[name]
    model = network.build(0, **(sizes or network.small))
    told = Explanation()
    stepwell.lower(model, "affine", specialise="never", instrumentation=told, **({"bind": pairs(model)} if bound else {}))
    found = [f"{d.kernel}: {d.what}" for d in told.decisions.declined if d.by == "bufferize" and d.op == "memref.copy" and d.kernel]
    return [copy for copy in found if not copy.startswith((*RECURRENT, LITERAL))]


AT_NIGHT = ("gpt", "llama", "llama_fused", "ocr", "translator")  # by day: decoders with a cache that is bound, below; an encoder, a detector


@pytest.mark.parametrize("name", by_day(networks.FREE, lambda name: name not in AT_NIGHT))
def test_kernels_of_any_size_copy_nothing(name: str) -> None:
    allowed = ["kept_boxes"] if name == "detector" else []  # how many there are
    assert [copy for copy in copies(name) if not copy.startswith(tuple(allowed))] == []


@pytest.mark.parametrize("sizes", [pytest.param({}, marks=pytest.mark.nightly), {"layers": 1, "width": 768, "heads": 12, "vocabulary": 101}])
def test_a_cache_is_read_where_it_lies(sizes: dict[str, int]) -> None:
    """Heads of as many elements as real ones have: their loops are merged with those over the batch."""
    assert copies("gpt", bound=True, **sizes) == []


@pytest.mark.parametrize("name", ["llama", "llama_fused"])
def test_a_cache_of_shared_heads_is_read_where_it_lies(name: str) -> None:
    assert copies(name, bound=True) == []


@pytest.mark.parametrize(("name", "sizes"), [("gpt", {"vocabulary": 101}), ("llama", GROUPED), ("llama_fused", GROUPED)])
def test_nothing_as_large_as_a_cache_is_made(name: str, sizes: dict[str, int]) -> None:
    """Neither put together, nor turned, nor repeated for heads that share it: the only tensors with all tokens of a head are the caches."""
    model = networks.FREE[name].build(0, layers=1, width=96, heads=4, **sizes)
    text = stepwell.lower(model, "graph-opt", specialise="never", bind=pairs(model)).text()
    main = text[text.index("func.func @main") : text.index("func.func private")]
    made = [line for line in main.splitlines() if " call @" in line]
    whole = re.compile(r"-> tensor<[^>]*x24[x>][^>]*\"[^\"]*past[^\"]*\">")
    assert [line for line in made if (found := whole.search(line)) and "past_capacity" not in found[0]] == []
    assert sum("past_capacity" in line.rpartition("->")[2] for line in made) in (2, 4)  # keys and values, written once or twice
