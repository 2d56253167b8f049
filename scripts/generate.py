#!/usr/bin/env python3
"""Compare the generation speed of decoders: Stepwell with a state, ONNX Runtime and OpenVINO; tokens per second, and time to the first token.

    .venv/bin/python scripts/generate.py [gpt] [llama] [llama_fused] [--prompt 32,512] [--tokens 128] [--threads 1,2]

GPT is 12 layers, 768 wide, in a greedy loop; LLaMA is one layer, 2048 wide, whose output is its next input, with attention as separate operators or
as one operator of ONNX Runtime's (`llama_fused`). Weights are random. All engines run in one process and alternate. Each keeps its cache in the best
available way: Stepwell by `bind`, ONNX Runtime by IO binding, OpenVINO as a stateful model. Results are medians of the rounds; ratios are relative to
the faster peer, above 1 if Stepwell is faster. The bound is the time in which numpy reads all weights for a token once; an engine that reads from
several places at once may be faster. With --cpu, the CPU time of the process is measured, which depends less on other work on the machine.
"""

import argparse
import importlib.util
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import onnx

NETWORKS = ("gpt", "llama", "llama_fused")
MASK = "attention_mask"  # an input of ones for all tokens so far
PAUSE = 0.3  # seconds before an engine's turn, after which worker threads of another engine no longer spin
BLOCK = 1 << 28  # bytes that are read to measure bandwidth; larger than any cache


class Engine(Protocol):
    """A decoder that keeps its cache."""

    def reset(self) -> None:
        """Start with an empty cache."""

    def step(self, given: "np.ndarray") -> "np.ndarray":
        """The output for the next input: a prompt, or one token."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested comparison; returns 0 if the engines agree, 1 if not, 2 for wrong usage (argparse)."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    unknown = set(options.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"there is no network {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    if options.cpu and options.threads != [1]:
        parser.error("--cpu counts the time of one thread: it needs --threads 1")
    if importlib.util.find_spec("onnxruntime") is None:
        parser.error("onnxruntime is not installed: pip install '.[bench]'")
    ratios: list[float] = []
    agree = True
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks or NETWORKS:
            agree &= compare(name, Path(folder), options, ratios)
    print(f"geometric mean of all ratios: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
    return int(not agree)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = argparse.ArgumentParser(description="Compare how fast decoders generate: Stepwell, ONNX Runtime and OpenVINO.")
    add = parser.add_argument
    add("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)} (default: all)")
    add("--prompt", type=_numbers, default=[32, 512], metavar="N,M", help="lengths of prompts (default: 32,512)")
    add("--tokens", type=int, default=128, help="how many tokens are generated (default: 128)")
    add("--threads", type=_numbers, default=[1, 2], metavar="N,M", help="numbers of threads (default: 1,2)")
    add("--rounds", type=int, default=5, help="how often each engine has its turn (default: 5)")
    add("--cpu", action="store_true", help="count processor time: for one thread only")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def compare(name: str, folder: Path, options: argparse.Namespace, ratios: list[float]) -> bool:
    """Print a line for each number of threads, prompt and engine; returns whether the engines agree."""
    import numpy as np
    import onnx

    from networks import FREE

    source, path, agree = FREE[name].build(0), folder / f"{name}.onnx", True
    onnx.save(source, path)
    weights = weight_bytes(source)
    for threads in options.threads:
        engines = load(path, source, threads)
        speed = bandwidth(threads, time.process_time if options.cpu else time.perf_counter)
        bound = speed / weights
        print(f"\n{name}, {threads} thread{'s' * (threads != 1)}: {weights / 1e6:.0f} MB of weights a token, read at {speed / 1e9:.1f} GB/s")
        print(f"{'prompt':>7} {'engine':>12} {'first token, ms':>16} {'tokens/s':>9} {'of the bound':>13} {'ratio first':>12} {'ratio tokens':>13}")
        for length in options.prompt:
            prompt = first_input(name, source, length)
            times: dict[str, list[tuple[float, float]]] = {engine: [] for engine in engines}
            outputs: dict[str, np.ndarray] = {}
            for turn in range(options.rounds + 1):  # the first one warms up
                for engine in list(engines)[:: 1 if turn % 2 else -1]:
                    time.sleep(PAUSE)
                    first, rest, outputs[engine] = generate(engines[engine], prompt, options.tokens if turn else 8, options.cpu)
                    if turn:
                        times[engine].append((first, rest))
            firsts = {engine: statistics.median(first for first, _ in own) for engine, own in times.items()}
            rests = {engine: statistics.median(rest for _, rest in own) for engine, own in times.items()}
            for engine in engines:
                shown = ""
                if engine == "stepwell":
                    quotients = [min(v for peer, v in found.items() if peer != engine) / found[engine] for found in (firsts, rests)]
                    ratios += quotients
                    shown = f" {quotients[0]:12.2f} {quotients[1]:13.2f}"
                rate = (options.tokens - 1) / rests[engine]
                print(f"{length:>7} {engine:>12} {1e3 * firsts[engine]:>16.1f} {rate:>9.1f} {rate / bound:>12.0%} {shown}", flush=True)
            scale = float(np.abs(outputs["stepwell"]).max())
            apart = max(float(np.abs(outputs["stepwell"] - other).max()) for other in outputs.values()) / scale
            agree &= apart < 1e-3
            if apart >= 1e-3:
                print(f"the engines' first outputs lie {apart:.1e} apart")
    return agree


def generate(engine: Engine, prompt: "np.ndarray", tokens: int, cpu: bool) -> "tuple[float, float, np.ndarray]":
    """The seconds to the first token and for the others, and the output for the prompt's last token."""
    clock = time.process_time if cpu else time.perf_counter
    engine.reset()
    begin = clock()
    output = engine.step(prompt)[:, -1:]
    given, kept = next_input(prompt, output), output.copy()
    middle = clock()
    for _ in range(tokens - 1):
        given = next_input(prompt, engine.step(given))
    return middle - begin, clock() - middle, kept


def next_input(prompt: "np.ndarray", output: "np.ndarray") -> "np.ndarray":
    """The input after an output for one token: the most probable token, or the output itself."""
    return output.argmax(axis=-1) if prompt.ndim == 2 else output.copy()


def first_input(name: str, source: "onnx.ModelProto", length: int) -> "np.ndarray":
    """A random prompt of one row."""
    import numpy as np

    random, shape = np.random.default_rng(length), source.graph.output[0].type.tensor_type.shape
    width = shape.dim[2].dim_value
    return random.integers(0, width, (1, length)) if name == "gpt" else random.standard_normal((1, length, width)).astype(np.float32)


def weight_bytes(source: "onnx.ModelProto") -> int:
    """The bytes of the weights that each token needs: all except tables of which only a row is needed."""
    from onnx import numpy_helper

    tables = {node.input[0] for node in source.graph.node if node.op_type == "Gather"}
    return sum(numpy_helper.to_array(tensor).nbytes for tensor in source.graph.initializer if tensor.name not in tables)


def bandwidth(threads: int, clock: Callable[[], float]) -> float:
    """The memory read bandwidth in bytes per second for a number of threads."""
    import numpy as np

    def halves(block: "np.ndarray") -> float:
        """Reads the block at two places at once, which is faster on some machines."""
        return float(np.einsum("i,i->", *block.reshape(2, -1)))  # single-threaded, unlike BLAS

    blocks = [np.ones(BLOCK // 4, np.float32) for _ in range(threads)]
    best = math.inf
    with ThreadPoolExecutor(threads) as pool:
        for read in (np.max, halves) * 5:
            begin = clock()
            list(pool.map(read, blocks))
            best = min(best, clock() - begin)
    return threads * BLOCK / best


def load(path: Path, source: "onnx.ModelProto", threads: int) -> dict[str, Engine]:
    """The engines that are installed."""
    given = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in source.graph.input}
    shapes = {name: (1, *sizes[1:]) for name, sizes in given.items() if name.startswith("past")}
    makers: dict[str, Callable[..., Engine]] = {"stepwell": Stepwell, "onnxruntime": OnnxRuntime, "openvino": OpenVINO}
    return {name: make(path, shapes, threads) for name, make in makers.items() if importlib.util.find_spec(name) is not None}


class Feed:
    """Makes the inputs of a call other than the cache: the tokens, and a mask if the model takes one."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are the names of the model's inputs, starting with the tokens."""
        self.tokens, *others = names
        self.masked = MASK in others
        self.length = 0

    def __call__(self, given: "np.ndarray") -> "dict[str, np.ndarray]":
        """The arrays for tokens that follow those of earlier calls."""
        import numpy as np

        self.length += given.shape[1]
        return {self.tokens: given, **({MASK: np.ones((len(given), self.length), np.int64)} if self.masked else {})}


class Stepwell:
    """Stepwell, whose caches grow in place."""

    def __init__(self, path: Path, shapes: dict[str, tuple[int, ...]], threads: int) -> None:
        import stepwell

        model = stepwell.compile(path, specialise="never", threads=threads)
        assert isinstance(model, stepwell.DynamicModel)
        self.bound = model.bind()
        self.feed = Feed(info.name for info in self.bound.inputs)

    def reset(self) -> None:
        self.bound.reset()
        self.feed.length = 0

    def step(self, given: "np.ndarray") -> "np.ndarray":
        return self.bound(*self.feed(given).values())[0]


class OnnxRuntime:
    """ONNX Runtime, with the returned cache bound to the next call: nothing is copied to or from numpy."""

    def __init__(self, path: Path, shapes: dict[str, tuple[int, ...]], threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.feed = Feed(value.name for value in self.session.get_inputs())
        self.gives = [value.name for value in self.session.get_outputs()]
        self.shapes, self.places = shapes, [self.gives.index(_present(name)) for name in shapes]
        self.binding = self.session.io_binding()
        self.cache: dict[str, Any] = {}

    def reset(self) -> None:
        import numpy as np
        import onnxruntime

        self.feed.length = 0
        # An empty array has no address.
        self.cache = {name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), np.float32) for name, shape in self.shapes.items()}

    def step(self, given: "np.ndarray") -> "np.ndarray":
        import onnxruntime

        binding = self.binding
        fed = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in self.feed(given).items()}
        for name, value in (fed | self.cache).items():
            binding.bind_ortvalue_input(name, value)
        for name in self.gives:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        outputs = binding.get_outputs()
        self.cache = {name: outputs[place] for name, place in zip(self.shapes, self.places, strict=True)}
        result: np.ndarray = outputs[0].numpy()
        return result


class OpenVINO:
    """OpenVINO, with the model converted to a stateful one."""

    def __init__(self, path: Path, shapes: dict[str, tuple[int, ...]], threads: int) -> None:
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation

        core = openvino.Core()
        model = core.read_model(path)
        self.feed = Feed(value.any_name for value in model.inputs)
        apply_make_stateful_transformation(model, {name: _present(name) for name in shapes})
        settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        settings |= {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}  # otherwise it would use narrower types
        self.request = core.compile_model(model, "CPU", settings).create_infer_request()
        self.empty = next(iter(shapes.values()))

    def reset(self) -> None:
        import numpy as np
        import openvino

        self.feed.length = 0
        for state in self.request.query_state():
            state.state = openvino.Tensor(np.zeros(self.empty, np.float32))

    def step(self, given: "np.ndarray") -> "np.ndarray":
        result: np.ndarray = self.request.infer(self.feed(given), share_inputs=True, share_outputs=True)[0]
        return result


def _present(past: str) -> str:
    return past.replace("past_key_values", "present")


if __name__ == "__main__":
    sys.exit(main())
