#!/usr/bin/env python3
"""Compare one program for all sizes with code specialised for each size, for networks with a free batch, image or sequence, or of any size.

    .venv/bin/python scripts/free_sizes.py [NETWORK | FILE.onnx ...] [--free batch|image|both] [--sizes 1,2,4 | 224,160x96 | 2x224x160 ...]
    .venv/bin/python scripts/free_sizes.py bert_layer --free sequence [--sizes 16,100 ...]
    .venv/bin/python scripts/free_sizes.py softmax layer_norm --free sequence --rounds 1000
    .venv/bin/python scripts/free_sizes.py matmul --free sequence --sizes 16,64,384,512,1024
    .venv/bin/python scripts/free_sizes.py encoder gpt llama [--sizes batch=1/sequence=64/past=0,... ...]
    .venv/bin/python scripts/free_sizes.py mobilenetv2 bert_layer gpt --first 40

Both run in one process and alternate, with the same inputs. A line for each size shows the minimum and the median of each, their ratio (above 1, the
program for all sizes is faster), and the difference of the results. Nothing else should run on the machine; otherwise only the ratios are meaningful,
and on one thread `--cpu` measures the CPU time of the thread.

With --first, the script compares the first call with new sizes to later calls with the same sizes, for the given number of random sizes. This also
works for the networks of any size (gpt, ocr, ...), in a small version. A first call may take 1.2 times as long as the later ones, plus 5 ms. The very
first call, for which the system loads code and memory, is shown but not checked.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import onnx

OPERATORS = {  # single operators: the elements of a row, of a row of the result, and the nodes
    "softmax": (128, 128, "y = Softmax <axis = -1> (x)"),
    "layer_norm": (128, 128, "s = ConstantOfShape <value = float[1] {2.0}> (width) y = LayerNormalization (x, s)"),
    "matmul": (2048, 5632, "y = MatMul (x, w)"),
}
USUAL = {  # sizes for networks of any size
    "ocr": "batch=1/height=32/width=100,batch=1/height=48/width=320,batch=4/height=32/width=160",
    "encoder": "batch=1/sequence=16,batch=1/sequence=100,batch=1/sequence=128,batch=4/sequence=50",
    "translator": "batch=1/source_length=20/target_length=20,batch=4/source_length=33/target_length=12",
    "gpt": "batch=1/sequence=1/past=100,batch=1/sequence=16/past=0,batch=1/sequence=128/past=0,batch=1/sequence=5/past=300",
    "llama": "batch=1/sequence=1/past=100,batch=1/sequence=16/past=0,batch=1/sequence=128/past=0,batch=1/sequence=5/past=300",
    "llama_fused": "batch=1/sequence=1/past=100/total=101,batch=1/sequence=16/past=0/total=16,batch=1/sequence=128/past=0/total=128",
    "detector": "batch=1/height=320/width=320,batch=1/height=416/width=256,batch=2/height=320/width=320",
}
DEFAULTS = {"batch": "1,2,3,4", "image": "224,160,321x199", "both": "1x224x224,3x160x160", "sequence": "16,64,100,128,384"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested comparison; returns 0, or 1 if results differ too much, or 2 for wrong usage (argparse)."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.cpu and options.threads != 1:
        parser.error("--cpu counts the time of one thread: it needs --threads 1")
    if options.first is not None:
        as_quick = [first_calls(name, options) for name in options.networks]
        return 0 if all(as_quick) else 1
    right = [compare(name, options) for name in options.networks]
    return 0 if all(right) else 1


def make_parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = argparse.ArgumentParser(description="Compare one program for all sizes with code made for each size.")
    add = parser.add_argument
    names = f"of the zoo, of any size ({', '.join(USUAL)}), an ONNX file, or {' or '.join(OPERATORS)} (default: mobilenetv2)"
    add("networks", nargs="*", metavar="NETWORK", default=["mobilenetv2"], help=names)
    add("--free", choices=DEFAULTS, default="batch", help="which dimensions of the images are free, or the second one of sequences (default: batch)")
    add("--sizes", metavar="A,B", help="batches, HEIGHTxWIDTH (or one number for both), BATCHxHEIGHTxWIDTH, or lengths; else SYMBOL=N/SYMBOL=N")
    add("--threads", type=int, default=1)
    add("--rounds", type=int, default=40, help="how often each of the two runs (default: 40)")
    add("--cpu", action="store_true", help="count the time of the thread alone, which other work on the machine disturbs less")
    add("--fresh", action="store_true", help="compile anew even where the cache has it, and say how long that takes")
    add("--seconds", type=float, default=20, help="after which a size is left, even if there were fewer rounds (default: 20)")
    add("--first", type=int, metavar="COUNT", help="time first calls with unseen sizes instead")
    return parser


def parsed(text: str, free: str, own: Sequence[int]) -> tuple[int, ...]:
    """The shape of images or sequences for a size given in the options' syntax; fixed dimensions are copied from `own`."""
    numbers = [int(part) for part in text.split("x")]
    if free == "batch":
        return numbers[0], *own[1:]
    if free == "sequence":
        return own[0], numbers[0], *own[2:]
    if len(numbers) < 3:
        numbers = [own[0], numbers[0], numbers[-1]]
    return numbers[0], own[1], *numbers[1:]


def inputs_of(name: str, source: "onnx.ModelProto", texts: str | None, free: str) -> "list[tuple[str, dict[str, np.ndarray]]]":
    """Random inputs for each of the sizes, or for the usual sizes of the network. Its dimensions are still fixed unless it takes any size."""
    import numpy as np

    from networks import FREE

    value = source.graph.input[0]
    own = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    found: list[tuple[str, dict[str, np.ndarray]]] = []
    for text in (texts or USUAL.get(name) or DEFAULTS[free]).split(","):
        if name in FREE:
            sizes = {symbol: int(size) for symbol, size in (part.split("=") for part in text.split("/"))}
            found.append((text, FREE[name].inputs(source, sizes, 0)))
        else:
            shape = parsed(text, free, own)
            found.append(("x".join(map(str, shape)), {value.name: np.random.default_rng(0).standard_normal(shape, np.float32)}))
    return found


def compare(name: str, options: argparse.Namespace) -> bool:
    """Print a table for one network; returns whether all results agree."""
    import numpy as np

    import stepwell
    from networks import FREE
    from stepwell.driver.dynamic import DynamicModel

    threads, clock = options.threads, time.thread_time if options.cpu else time.perf_counter
    source = network(name)
    cases = inputs_of(name, source, options.sizes, options.free)
    width = max(12, *(len(size) for size, _ in cases))
    if name not in FREE:
        source = freed(source, options.free)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(source.SerializeToString())
        start = time.perf_counter()
        general = stepwell.compile(path, specialise="never", threads=threads, cache=not options.fresh)
        assert isinstance(general, DynamicModel)
        took = time.perf_counter() - start
        print(f"{name}, free {'any' if name in FREE else options.free}, {threads} thread{'s' * (threads != 1)}")
        print(f"{'size':>{width}} {'made for it, ms':>18} {'for all, ms':>18} {'ratio':>7} {'medians':>8} {'apart':>8}")
        agree, each = True, []
        for size, inputs in cases:
            shapes = {key: array.shape for key, array in inputs.items()}
            start = time.perf_counter()
            try:
                exact = stepwell.compile(path, shapes=shapes, threads=threads, cache=not options.fresh)
            except stepwell.StepwellError as error:  # a network whose last layers take images of one size only
                print(f"{size:>{width}} left out: {str(error.args[0]).strip().splitlines()[-1].strip()}", flush=True)
                continue
            each.append(time.perf_counter() - start)
            runs = [exact, general.specialise(shapes)]
            results = [next(iter(run.run(inputs).values())) for run in runs]
            apart = float(np.abs(results[0] - results[1]).max(initial=0) / max(float(np.abs(results[0]).max(initial=0)), 1e-30))
            agree &= apart < 1e-3
            times: list[list[float]] = [[], []]
            begin = time.perf_counter()
            for turn in range(options.rounds):
                if time.perf_counter() - begin > options.seconds:
                    break
                for which in (0, 1) if turn % 2 else (1, 0):
                    start = clock()
                    runs[which].run(inputs)
                    times[which].append(clock() - start)
            least, middle = [1e3 * min(t) for t in times], [1e3 * statistics.median(t) for t in times]
            shown = [f"{a:.3f} ({b:.3f})" for a, b in zip(least, middle, strict=True)]
            print(f"{size:>{width}} {shown[0]:>18} {shown[1]:>18} {least[0] / least[1]:7.3f} {middle[0] / middle[1]:8.3f} {apart:8.1e}", flush=True)
        if options.fresh and each:
            one = statistics.median(each)
            print(f"compiling took {took:.1f} s for all sizes, {one:.1f} s for one (median): {took / one:.1f} times as long", flush=True)
    return agree


FACTOR, EXTRA = 1.2, 5e-3  # the limit of a first call: a factor of later calls, and seconds in addition
LATER = 7  # calls with known sizes


def first_calls(name: str, options: argparse.Namespace) -> bool:
    """Print a line for one network; returns whether all first calls with new sizes are within the limit."""
    import numpy as np

    import stepwell
    from networks import FREE
    from stepwell.driver.dynamic import DynamicModel

    clock = time.thread_time if options.cpu else time.perf_counter
    small = FREE.get(name)
    source = freed(network(name), options.free) if small is None else small.build(0, **small.small)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(source.SerializeToString())
        general = stepwell.compile(path, specialise="never", threads=options.threads, cache=not options.fresh)
        assert isinstance(general, DynamicModel)
        symbols = sorted({dim.dim_param for value in source.graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param})
        firsts, laters, late = [], [], 0
        for turn in range(options.first):
            sizes = {symbol: int(random.integers(1, 50)) for symbol in symbols}
            sizes |= {symbol: int(random.integers(1, 5)) for symbol in symbols if symbol in ("n", "batch")}
            sizes |= {symbol: int(16 * random.integers(2, 16)) for symbol in symbols if symbol in ("h", "w", "height", "width")}
            if small is None:
                kinds = {value.name: value.type.tensor_type.shape.dim for value in source.graph.input}
                shapes = {key: [dim.dim_value or sizes[dim.dim_param] for dim in dims] for key, dims in kinds.items()}
                inputs = {key: random.standard_normal(shape, np.float32) for key, shape in shapes.items()}
            else:
                inputs = small.inputs(source, sizes, turn)
            times = []
            for _ in range(1 + LATER):
                start = clock()
                general.run(inputs)
                times.append(clock() - start)
            firsts.append(times[0])
            laters.append(statistics.median(times[1:]))
            late += turn > 0 and times[0] > FACTOR * laters[-1] + EXTRA
    more = [1e3 * (first - later) for first, later in zip(firsts, laters, strict=True)]
    first, later = (1e3 * statistics.median(times) for times in (firsts, laters))
    apart = f"{statistics.median(more):.2f} ms more, {max(more[1:], default=0):.2f} ms at most, and {more[0]:.2f} ms for the very first"
    print(f"{name:12} {options.first} first calls: median {first:.2f} ms, of later ones {later:.2f} ms; {apart}; too slow: {late}", flush=True)
    return late == 0


def network(name: str) -> "onnx.ModelProto":
    """A network of the zoo or of any size, one from a file, or a single operator over rows."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    from networks import FREE, build

    if name in FREE:
        return FREE[name].build(0)
    if name in OPERATORS:
        taken, given, nodes = OPERATORS[name]
        types = f"(float[1, 512, {taken}] x) => (float[1, 512, {given}] y) <int64[1] width = {{{taken}}}>"
        model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> rows {types} {{ {nodes} }}')
        if any("w" in node.input for node in model.graph.node):
            weights = np.random.default_rng(0).standard_normal((taken, given), np.float32) / np.float32(taken**0.5)
            model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        return model
    return onnx.load(name) if Path(name).suffix == ".onnx" else build(name, 0)


def freed(source: "onnx.ModelProto", free: str) -> "onnx.ModelProto":
    """The network with some dimensions of its first input free; shapes that follow from them are left to inference.

    If it reshapes to one image, or to a sequence of that length, the new network reshapes to the actual number.
    """
    from onnx import numpy_helper

    names = {"batch": {0: "n"}, "image": {2: "h", 3: "w"}, "both": {0: "n", 2: "h", 3: "w"}, "sequence": {1: "s"}}[free]
    dims = source.graph.input[0].type.tensor_type.shape.dim
    shapes = {node.input[1] for node in source.graph.node if node.op_type == "Reshape"}
    for tensor in source.graph.initializer:
        for place in {0, 1} & set(names) if tensor.name in shapes else ():
            array = numpy_helper.to_array(tensor).copy()
            if array.size > place + 1 and array[place] == dims[place].dim_value:
                array[place] = 0  # copies the operand's size
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for place, symbol in names.items():
        dims[place].dim_param = symbol
    del source.graph.value_info[:]
    for output in source.graph.output:
        output.type.tensor_type.ClearField("shape")
    return source


if __name__ == "__main__":
    sys.exit(main())
