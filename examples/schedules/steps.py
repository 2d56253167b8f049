#!/usr/bin/env python3
"""What the knobs of a schedule are worth: one matrix product, computed as schedule files say, from plain loops to what is chosen.

    .venv/bin/python examples/schedules/steps.py [--target NAME] [--size N] [--rounds N] [--save DIR]

Writes a schedule file for each step (kept with --save), compiles the model with it, checks the result, and times all of them in turn on one
thread. docs/schedules.md goes through it.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import stepwell


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description="What the knobs of a schedule are worth.")
    parser.add_argument("--target", default="host", help="the machine to compile for (default: host)")
    parser.add_argument("--size", type=int, default=384, help="rows, columns and summed elements of the product (default: 384)")
    parser.add_argument("--rounds", type=int, default=15, help="how often each is timed (default: 15)")
    parser.add_argument("--save", type=Path, metavar="DIR", help="keep the model and the schedule files")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.save or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        return measure(folder, options)


def measure(folder: Path, options: argparse.Namespace) -> int:
    """Compile with each schedule, check, time, print."""
    model = folder / "product.onnx"
    model.write_bytes(product(options.size).SerializeToString())
    files = write_steps(stepwell.KernelBench(model, target=options.target, threads=1), folder)
    compiled = {n: stepwell.compile(model, schedule=file, target=options.target, threads=1, cache=False) for n, file in files.items()}
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((options.size, options.size), np.float32) for _ in "ab")
    bound = np.finfo(np.float32).eps * options.size * (np.abs(a) @ np.abs(b))
    wrong = [n for n, m in compiled.items() if not (np.abs(m.run({"a": a, "b": b})["y"] - a.astype(np.float64) @ b) <= bound).all()]
    for name in wrong:
        print(f"error: '{name}' gives a wrong result", file=sys.stderr)
    times = interleaved([m for m in compiled.values() if isinstance(m, stepwell.CompiledModel)], (a, b), options.rounds)
    rows = {name: (statistics.median(own), min(own)) for name, own in zip(compiled, times, strict=True)}
    plain = rows["plain loops"]
    print(f"{'schedule':<36}{'median':>10}{'least':>10}{'GFLOP/s':>9}{'x plain (median)':>18}{'(least)':>9}")
    for name, (median, least) in rows.items():
        rate = 2e-9 * options.size**3 / least
        print(f"{name:<36}{median * 1e3:>7.2f} ms{least * 1e3:>7.2f} ms{rate:>9.1f}{plain[0] / median:>18.1f}{plain[1] / least:>9.1f}")
    return int(bool(wrong))


def product(size: int) -> onnx.ModelProto:
    """A matrix product of two inputs."""
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in "aby"]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"], name="product")], "product", sides[:2], sides[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write_steps(bench: stepwell.KernelBench, folder: Path) -> dict[str, Path]:
    """Schedule files that lead from plain loops to what is chosen; each says the knobs of the one contraction."""
    ops = [(kernel, place, op) for kernel in bench.kernels.values() for place, op in kernel.ops.items()]
    [(kernel, place, chosen)] = [found for found in ops if found[2].kind == "contraction"]
    tile = {name: 1 for name in chosen.knobs if name.startswith("unroll.")}
    alone = {"vector": chosen.knobs["vector"], "width": min(chosen.knobs["width"], 8), "parallel": 0}
    steps: dict[str, dict[str, Any]] = {
        "plain loops": {**tile, "vector": -1, "width": 1, "parallel": 0},
        "vectors of 8": {**tile, **alone},
        "vectors of 8, 4 rows in registers": {**tile, **alone, "unroll.0": 4},
        "chosen": dict(chosen.knobs),
    }
    files = {}
    for number, (name, knobs) in enumerate(steps.items()):
        files[name] = folder / f"step{number}.json"
        op = {"nodes": chosen.nodes, "kind": chosen.kind, "sizes": chosen.sizes, "knobs": knobs}
        kernels = {kernel.digest: {"name": kernel.name, "nodes": kernel.nodes, "ops": {place: op}}}
        files[name].write_text(json.dumps({"version": 2, "kernels": kernels}, indent=1) + "\n")
    return files


def interleaved(models: Sequence[stepwell.CompiledModel], inputs: tuple[np.ndarray, ...], rounds: int) -> list[list[float]]:
    """Seconds of each model's runs, the models taking turns."""
    times: list[list[float]] = [[] for _ in models]
    for _ in range(rounds + 1):
        for model, own in zip(models, times, strict=True):
            begin = time.perf_counter()
            model(*inputs)
            own.append(time.perf_counter() - begin)
    return [own[1:] for own in times]


if __name__ == "__main__":
    sys.exit(main())
