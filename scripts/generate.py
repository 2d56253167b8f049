#!/usr/bin/env python3
"""Compare how fast decoders generate: Stepwell with a state, ONNX Runtime and OpenVINO. Tokens per second, and the time to the first token.

    .venv/bin/python scripts/generate.py [gpt] [llama] [llama_fused] [--prompt 32,512] [--tokens 128] [--threads 1,2]

GPT is 12 layers, 768 wide, in a greedy loop; of LLaMA it is one layer, 2048 wide, whose output is its next input, spelled out or with attention
as one operator of ONNX Runtime's (`llama_fused`). Weights are random. All
engines run in one process and take turns, each keeps its cache the best way that it has: Stepwell by `bind`, ONNX Runtime by IO binding,
OpenVINO as a stateful model. Medians of the rounds; ratios are to the faster peer, above 1 where Stepwell is faster. The bound is what it
would take numpy to read all weights once that a token needs; who reads from more places at once may be faster. With --cpu, the processor time
of the process counts, which other work on the machine disturbs less.
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
PAUSE = 0.3  # seconds before a turn, after which workers of another engine no longer wait actively
BLOCK = 1 << 28  # bytes that are read to measure bandwidth: more than any cache holds


class Engine(Protocol):
    """A decoder that keeps its cache."""

    def reset(self) -> None:
        """Begin with an empty cache."""

    def step(self, given: "np.ndarray") -> "np.ndarray":
        """The output for what comes next: a prompt, or one token."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; 0 if the engines agree, 1 if not, 2 for wrong usage (argparse)."""
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
    """The options."""
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
    """Print a line for each number of threads, prompt and engine; whether the engines agree."""
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
    """What comes after an output for one token: the likeliest token, or the output itself."""
    return output.argmax(axis=-1) if prompt.ndim == 2 else output.copy()


def first_input(name: str, source: "onnx.ModelProto", length: int) -> "np.ndarray":
    """A random prompt of one row."""
    import numpy as np

    random, shape = np.random.default_rng(length), source.graph.output[0].type.tensor_type.shape
    width = shape.dim[2].dim_value
    return random.integers(0, width, (1, length)) if name == "gpt" else random.standard_normal((1, length, width)).astype(np.float32)


def weight_bytes(source: "onnx.ModelProto") -> int:
    """The bytes of the weights that each token needs: all but tables of which it needs a row."""
    from onnx import numpy_helper

    tables = {node.input[0] for node in source.graph.node if node.op_type == "Gather"}
    return sum(numpy_helper.to_array(tensor).nbytes for tensor in source.graph.initializer if tensor.name not in tables)


def bandwidth(threads: int, clock: Callable[[], float]) -> float:
    """The bytes in a second that so many threads read from memory."""
    import numpy as np

    def halves(block: "np.ndarray") -> float:
        """Reads it from two places at once, which some machines do faster."""
        return float(np.einsum("i,i->", *block.reshape(2, -1)))  # on one thread, as BLAS is not

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
    """What a call is given besides the cache: the tokens, and a mask if the model takes one."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are those of the model's inputs, that of the tokens first."""
        self.tokens, *others = names
        self.masked = MASK in others
        self.length = 0

    def __call__(self, given: "np.ndarray") -> "dict[str, np.ndarray]":
        """The arrays for tokens behind those of the calls before."""
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
    """ONNX Runtime, which gives a cache of its own memory that the next call is bound to: nothing is copied to or from numpy."""

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
        # Of an empty array there is no address.
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
    """OpenVINO, whose model is made stateful."""

    def __init__(self, path: Path, shapes: dict[str, tuple[int, ...]], threads: int) -> None:
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation

        core = openvino.Core()
        model = core.read_model(path)
        self.feed = Feed(value.any_name for value in model.inputs)
        apply_make_stateful_transformation(model, {name: _present(name) for name in shapes})
        settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        settings |= {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}  # it would use narrower numbers
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
