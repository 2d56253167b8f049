#!/usr/bin/env python3
"""Compile digits.onnx, classify digits it was not trained on, and compare results and latency with ONNX Runtime's.

    scripts/demo
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from data import split
from rich.console import Console
from rich.table import Table

import stepwell

MODEL = Path(__file__).parent / "digits.onnx"
WARM_UP, ROUNDS = 200, 2000
SHADES = " ░▒▓█"

Classifier = Callable[[np.ndarray], np.ndarray]


def main() -> int:
    """Show compilation, accuracy, latency and a few digits; 1 if a result is not ONNX Runtime's."""
    console = Console(highlight=False)
    _, (images, labels) = split()

    console.print("[bold]Stepwell[/]: a network for handwritten digits, from ONNX to machine code\n")
    ours = compile_ours(console)
    theirs = start_onnxruntime()

    a = np.stack([ours(image[None])[0] for image in images])
    b = np.stack([theirs(image[None])[0] for image in images])
    same = report_accuracy(console, a, b, labels)
    report_latency(console, ours, theirs, images)
    draw(console, images, labels, a)
    return 0 if same else 1


def compile_ours(console: Console) -> Classifier:
    """The network compiled by Stepwell for one image; prints each level when it is reached."""

    def on_level(level: str, seconds: float) -> None:
        console.print(f"  [green]✓[/] {level:10} {seconds * 1e3:8.1f} ms")

    console.print(f"compiling {MODEL.name} ({MODEL.stat().st_size / 1000:.0f} kB)")
    start = time.perf_counter()
    model = stepwell.compile(MODEL, shapes={"image": (1, 1, 8, 8)}, threads=1, cache=False, on_level=on_level)
    seconds = time.perf_counter() - start
    assert isinstance(model, stepwell.CompiledModel)  # and no DynamicModel: all shapes are given
    console.print(f"  {model.kernels} distinct kernels, {seconds:.2f} s in all, with loading the compiler\n")
    return lambda image: model.run({"image": image})["probability"]


def start_onnxruntime() -> Classifier:
    """The same network in ONNX Runtime, on one thread too: a digit is too small to share."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(MODEL), settings, providers=["CPUExecutionProvider"])
    return lambda image: session.run(["probability"], {"image": image})[0]


def report_accuracy(console: Console, ours: np.ndarray, theirs: np.ndarray, labels: np.ndarray) -> bool:
    """How many digits come out right, and whether each comes out as in ONNX Runtime; that verdict."""
    right = int((ours.argmax(1) == labels).sum())
    agree = int((ours.argmax(1) == theirs.argmax(1)).sum())
    console.print(f"accuracy: {right} of {len(labels)} digits that it was not trained on ({right / len(labels):.1%})")
    console.print(f"ONNX Runtime: {int((theirs.argmax(1) == labels).sum())} of {len(labels)}; the same answer for {agree} of {len(labels)} digits,")
    console.print(f"largest difference of a probability {np.abs(ours - theirs).max():.1e}\n")
    return agree == len(labels)


def report_latency(console: Console, ours: Classifier, theirs: Classifier, images: np.ndarray) -> None:
    """Time both engines on single digits, turn by turn."""
    engines = {"Stepwell": ours, "ONNX Runtime": theirs}
    times: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(WARM_UP + ROUNDS):
        image = images[turn % len(images)][None]
        for name, classify in engines.items():
            start = time.perf_counter()
            classify(image)
            if turn >= WARM_UP:
                times[name].append(time.perf_counter() - start)
    console.print(f"latency of one digit on one thread, {ROUNDS} runs of each engine in turn:")
    table = Table()
    table.add_column("engine")
    table.add_column("median", justify="right")
    table.add_column("fastest", justify="right")
    for name, seconds in times.items():
        table.add_row(name, f"{statistics.median(seconds) * 1e6:.1f} µs", f"{min(seconds) * 1e6:.1f} µs")
    console.print(table)
    console.print()


def draw(console: Console, images: np.ndarray, labels: np.ndarray, probabilities: np.ndarray) -> None:
    """Four digits side by side with their predictions, the hardest one last."""
    sure = probabilities[np.arange(len(labels)), labels]
    chosen = [0, 1, 2, int(sure.argmin())]
    for row in range(8):
        console.print("   ".join("".join(2 * SHADES[round(float(pixel) * 4)] for pixel in images[i, 0, row]) for i in chosen), markup=False)
    captions = []
    for i in chosen:
        guess = int(probabilities[i].argmax())
        verdict = f"{guess} ({probabilities[i, guess]:.0%})" + ("" if guess == labels[i] else f", it is {labels[i]}")
        captions.append(f"{verdict:16}")
    console.print("   ".join(captions), markup=False)


if __name__ == "__main__":
    sys.exit(main())
