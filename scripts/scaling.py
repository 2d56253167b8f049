#!/usr/bin/env python3
"""CPU seconds of graphs of growing size, for import, each level of IR and machine code, and their growth.

    .venv/bin/python scripts/scaling.py [GRAPH …] [--nodes 100,1000,10000] [--recursion-limit N]

Each graph is generated with about the given number of nodes:

    chain     a long chain of convolutions, products, element-wise operators and layout changes; its kernels repeat
    wide      many short branches side by side, which one Sum combines
    shapes    a chain of Reshape whose sizes are computed by Shape, Gather, Mul and Concat, as exporters write them
    constants a chain of arithmetic on small constants, which folds to one
    weights   the same on weights
    joined    half of the nodes compute the operands of one Concat, and as many constants are the operands of another
    distinct  a chain of products of growing sizes: as many kernels as nodes (at most 400 nodes)

The last lines of a table show the exponent of the growth between the two largest sizes, and between the smallest and the largest: 1 is linear, 2 is
quadratic. Every size runs in a separate process, without the cache. `workers` are the compiler processes.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

MOST_DISTINCT = 400
SIZES = (100, 300, 1000, 3000, 10000, 20000)


def model(nodes: Sequence[NodeProto], result: str, shape: Sequence[int], weights: dict[str, np.ndarray]) -> ModelProto:
    """A model from x, of the given shape, to one result."""
    graph = helper.make_graph(
        list(nodes), "scaling", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(count: int) -> ModelProto:
    """A chain of `count` nodes, in groups of nine."""
    random = np.random.default_rng(0)
    weights = {
        "conv": random.standard_normal((4, 4, 3, 3), np.float32) * 0.2, "shift": random.standard_normal((1, 4, 1, 1), np.float32),
        "matrix": random.standard_normal((6, 6), np.float32) * 0.3,
    }  # fmt: skip
    steps: list[Callable[[str, str], NodeProto]] = [
        lambda x, y: helper.make_node("Conv", [x, "conv"], [y], pads=[1, 1, 1, 1]),
        lambda x, y: helper.make_node("Add", [x, "shift"], [y]),
        lambda x, y: helper.make_node("Tanh", [x], [y]),
        lambda x, y: helper.make_node("MatMul", [x, "matrix"], [y]),
        lambda x, y: helper.make_node("Sigmoid", [x], [y]),
        lambda x, y: helper.make_node("Mul", [x, x], [y]),
        lambda x, y: helper.make_node("Transpose", [x], [y], perm=[0, 1, 3, 2]),
        lambda x, y: helper.make_node("Softmax", [x], [y], axis=-1),
        lambda x, y: helper.make_node("Sub", [x, "shift"], [y]),
    ]
    names = ["x", *(f"v{i}" for i in range(1, count + 1))]
    return model([steps[i % len(steps)](names[i], names[i + 1]) for i in range(count)], names[-1], [1, 4, 6, 6], weights)


def wide(count: int) -> ModelProto:
    """Branches of three nodes each, and their sum."""
    nodes = []
    branches = max(count // 3, 1)
    for i in range(branches):
        nodes += [helper.make_node("Mul", ["x", f"w{i % 7}"], [f"a{i}"]), helper.make_node("Tanh", [f"a{i}"], [f"b{i}"])]
        nodes += [helper.make_node("ReduceMax", [f"b{i}", "axes"], [f"c{i}"], keepdims=1)]
    nodes.append(helper.make_node("Sum", [f"c{i}" for i in range(branches)], ["y"]))
    weights = {f"w{i}": np.arange(8, dtype=np.float32) * (i + 1) / 10 for i in range(7)} | {"axes": np.array([1])}
    return model(nodes, "y", [4, 8], weights)


def shapes(count: int) -> ModelProto:
    """Groups of six nodes: a Reshape to the sizes that five others compute from the sizes of the input."""
    nodes: list[NodeProto] = []
    value = "x"
    for i in range(max(count // 6, 1)):
        nodes += [
            helper.make_node("Shape", [value], [f"s{i}"]), helper.make_node("Gather", [f"s{i}", "first"], [f"m{i}"]),
            helper.make_node("Gather", [f"s{i}", "second"], [f"n{i}"]), helper.make_node("Concat", [f"n{i}", f"m{i}"], [f"t{i}"], axis=0),
            helper.make_node("Reshape", [value, f"t{i}"], [f"r{i}"]), helper.make_node("Tanh", [f"r{i}"], [f"v{i}"]),
        ]  # fmt: skip
        value = f"v{i}"
    return model(nodes, value, [4, 8], {"first": np.array([0]), "second": np.array([1])})


def constants(count: int, shape: tuple[int, ...] = (8,)) -> ModelProto:
    """The sum of x and the result of `count` nodes that compute from a constant."""
    nodes = [helper.make_node("Add" if i % 2 else "Neg", [f"k{i}", "one"][: 1 + i % 2], [f"k{i + 1}"]) for i in range(count)]
    nodes.append(helper.make_node("Add", ["x", f"k{count}"], ["y"]))
    start = np.random.default_rng(0).standard_normal(shape, np.float32)
    return model(nodes, "y", [4, shape[-1]], {"k0": start, "one": np.ones(1, np.float32)})


def weights(count: int) -> ModelProto:
    """Like `constants`, but computed from a weight."""
    return constants(count, (4, 2000))


def joined(count: int) -> ModelProto:
    """Two concatenations: of the results of half of the nodes, and of as many constants, which gives a size."""
    parts = max(count // 2, 1)
    nodes = [helper.make_node("Mul", ["x", f"f{i % 5}"], [f"a{i}"]) for i in range(parts)]
    nodes += [helper.make_node("Neg", [f"k{i}"], [f"n{i}"]) for i in range(parts)]
    nodes += [helper.make_node("Concat", [f"{name}{i}" for i in range(parts)], [name], axis=axis) for name, axis in (("a", 1), ("n", 0))]
    nodes += [helper.make_node("ReduceMin", ["n"], ["least"], keepdims=1), helper.make_node("Neg", ["least"], ["most"])]
    nodes += [helper.make_node("Concat", ["most", "minus"], ["size"], axis=0), helper.make_node("Reshape", ["a", "size"], ["y"])]
    sizes = {f"k{i}": np.array([1 + i % 2]) for i in range(parts)} | {"minus": np.array([-1])}
    return model(nodes, "y", [4, 3], sizes | {f"f{i}": np.array(i + 0.5, np.float32) for i in range(5)})


def distinct(count: int) -> ModelProto:
    """Products with a different size each."""
    random = np.random.default_rng(0)
    count = min(count, MOST_DISTINCT)
    weights = {f"w{i}": random.standard_normal((4 + i, 5 + i), np.float32) / (4 + i) for i in range(count)}
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, f"v{count}", [3, 4], weights)


GRAPHS: dict[str, Callable[[int], ModelProto]] = {f.__name__: f for f in (chain, wide, shapes, constants, weights, joined, distinct)}


def measure(graph: str, nodes: int, recursion_limit: int | None) -> dict[str, float]:
    """The CPU seconds of each level in this process, and those of its compiler processes."""
    import stepwell
    from stepwell.backends.llvm_cpu.pool import shut_down

    source = GRAPHS[graph](nodes)
    stepwell.compile(GRAPHS["chain"](9), cache=False)  # loads everything before the measurement
    shut_down()
    if recursion_limit is not None:
        sys.setrecursionlimit(recursion_limit)
    seconds, spent, others = {}, time.process_time(), sum(os.times()[2:4])

    def reached(level: str, _: float) -> None:
        nonlocal spent
        seconds[level], spent = time.process_time() - spent, time.process_time()

    stepwell.compile(source, cache=False, on_level=reached)
    shut_down()  # the times of processes are known after they have ended
    seconds["workers"] = sum(os.times()[2:4]) - others
    return {**seconds, "sum": sum(seconds.values())}


def table(graph: str, sizes: Sequence[int], recursion_limit: int | None) -> None:
    """Print one graph's table, row by row."""
    rows: list[tuple[int, dict[str, float]]] = []
    for size in sorted({min(size, MOST_DISTINCT) for size in sizes} if graph == "distinct" else sizes):
        command = [sys.executable, __file__, graph, "--nodes", str(size), "--json"]
        command += ["--recursion-limit", str(recursion_limit)] if recursion_limit is not None else []
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            sys.exit(f"{graph}, {size} nodes:\n{ended.stderr}")
        seconds = json.loads(ended.stdout.splitlines()[-1])
        if not rows:
            print(f"{graph:>9} nodes " + " ".join(f"{name:>9}" for name in seconds))
        rows.append((size, seconds))
        print(f"{size:15} " + " ".join(f"{s:9.3f}" for s in seconds.values()), flush=True)
    for name, first in (("exponent", -2), ("from the first", 0)):
        if len(rows) > (1 if first else 2):
            (small, before), (large, after) = rows[first], rows[-1]
            grown = math.log(large / small)
            print(f"{name:>15} " + " ".join(f"{math.log(max(after[n], 1e-4) / max(before[n], 1e-4)) / grown:9.2f}" for n in after))
    print()


def main() -> None:
    """Print the tables requested on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"{', '.join(GRAPHS)}; all unless some are named")
    parser.add_argument("--nodes", default=",".join(map(str, SIZES)), help="numbers of nodes, separated by commas")
    parser.add_argument("--recursion-limit", type=int, help="Python's, while a model is compiled")
    parser.add_argument("--json", action="store_true", help="measure one graph of one size in this process, print a line of JSON")
    options = parser.parse_args()
    unknown = [graph for graph in options.graphs if graph not in GRAPHS]
    if unknown:
        parser.error(f"no graph named {', '.join(unknown)}")
    sizes = [int(size) for size in options.nodes.split(",")]
    if options.json:
        print(json.dumps(measure(options.graphs[0], sizes[0], options.recursion_limit)))
        return
    for graph in options.graphs or GRAPHS:
        table(graph, sizes, options.recursion_limit)


if __name__ == "__main__":
    main()
