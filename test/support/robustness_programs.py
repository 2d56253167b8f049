"""What the tests of robustness run in child processes: small models whose right answers are known, threads that compile and run them."""

import collections
import concurrent.futures
import ctypes
import faulthandler
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from together import together
from watchdog import address_space

import stepwell
from stepwell.runtime.openmp import find_libomp, openmp

ROWS = 600  # with its 64 columns, enough work for a loop to be dealt out to threads
SOURCES = tuple(f"{Path(stepwell.__path__[0]).parent / folder}{os.sep}" for folder in ("compiler", "dialects", "passes"))
X = np.random.default_rng(5).standard_normal((ROWS, 64), np.float32)


def network(seed: int = 0, *, rows: int | str = ROWS, weights: int = 32) -> onnx.ModelProto:
    """`max(x @ w, 0) + b`, with weights of its own for each seed."""
    rng = np.random.default_rng(seed)
    arrays = {"w": rng.standard_normal((64, weights), np.float32), "b": rng.standard_normal(weights, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="first/matmul"),
        helper.make_node("Relu", ["p"], ["r"], name="then/relu"),
        helper.make_node("Add", ["r", "b"], ["y"], name="last/add"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net", [value("x", TensorProto.FLOAT, [rows, 64])], [value("y", TensorProto.FLOAT, [rows, weights])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check(y: np.ndarray, seed: int, x: np.ndarray = X, *, weights: int = 32) -> None:
    """Raise AssertionError if `y` is not what `network(seed)` makes of `x`."""
    rng = np.random.default_rng(seed)
    w, b = rng.standard_normal((64, weights), np.float32), rng.standard_normal(weights, np.float32)
    wide = x.astype(np.float64), w.astype(np.float64)
    bound = (66 * np.finfo(np.float32).eps) * (_product(*map(np.abs, wide)) + np.abs(b))
    assert (np.abs(y - (np.maximum(_product(*wide), 0) + b)) <= bound).all()


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`x @ y`, without BLAS: that of numpy may hang in a process that was forked while another thread was in it."""
    return np.einsum("ij,jk->ik", x, y, optimize=False)


def compile_and_check(seed: int = 0, *, threads: int = 2, source: Any = None) -> None:
    """Compile a network, run it, check what comes out."""
    model = stepwell.compile(network(seed) if source is None else source, threads=threads)
    check(model(X)[0], seed)


def compile_in_threads(count: int, rounds: int) -> None:
    """`count` threads compile different and equal models; the first round loads everything, the others find it there."""
    for _ in range(rounds):
        together(*[lambda seed=i % 3: compile_and_check(seed, threads=1) for i in range(count)])


def compile_beside_runs(models: int) -> None:
    """Two threads run a model, on two cores each, while others compile."""
    first, done = stepwell.compile(network(7), threads=2), threading.Event()

    def run() -> None:
        while not done.is_set():
            check(first(X)[0], 7)

    def compile_all() -> None:
        try:
            for seed in range(models):
                compile_and_check(seed)
        finally:
            done.set()

    together(run, run, compile_all)


def free_rows_in_threads(count: int) -> None:
    """`count` threads ask one model with a free dimension for few sizes: the same and others at once."""
    model = stepwell.compile(network(3, rows="rows"), threads=1)

    def use(i: int) -> None:
        for rows in (5 + i % 2, 7, 5):
            check(model(X[:rows])[0], 3, X[:rows])

    together(*[lambda i=i: use(i) for i in range(count)])


def many_threads_in_a_run(counts: list[int]) -> list[float]:
    """Run one model with each number of threads; returns the seconds of each."""
    seconds = []
    for count in counts:
        model = stepwell.compile(network(1), threads=count)
        begin = time.perf_counter()
        check(model(X)[0], 1)
        seconds.append(time.perf_counter() - begin)
    return seconds


def compile_files(paths: list[str], seeds: list[int]) -> list[str]:
    """Compile models in files and check what they compute; returns the first level of each ("cache" for one that was found)."""
    levels = []
    for path, seed in zip(paths, seeds, strict=True):
        model = stepwell.compile(path, threads=1)
        check(model(X)[0], seed)
        levels.append(next(iter(model.timings)))
    return levels


def wide_network(count: int) -> onnx.ModelProto:
    """`count` inputs and as many outputs: each input plus twice the next one."""
    value = helper.make_tensor_value_info
    nodes = []
    for i in range(count):
        following = f"x{(i + 1) % count}"
        nodes += [helper.make_node("Add", [f"x{i}", following], [f"s{i}"]), helper.make_node("Add", [f"s{i}", following], [f"y{i}"])]
    sides = [[value(f"{name}{i}", TensorProto.FLOAT, [2, 3]) for i in range(count)] for name in "xy"]
    return helper.make_model(helper.make_graph(nodes, "wide", *sides), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def compile_wide(count: int) -> None:
    """Compile and run a model with `count` inputs and outputs, into new arrays and given ones that share memory with inputs."""
    model = stepwell.compile(wide_network(count), threads=1)
    x = np.random.default_rng(count).standard_normal((count, 2, 3), np.float32)
    want = (x + np.roll(x, -1, 0)) + np.roll(x, -1, 0)
    assert np.array_equal(np.stack(model(*x)), want)
    model.run({f"x{i}": x[i] for i in range(count)}, out={f"y{i}": x[(7 * i) % count] for i in range(count) if i % 3})
    assert all(np.array_equal(x[(7 * i) % count], want[i]) for i in range(count) if i % 3)


def products(size: int) -> onnx.ModelProto:
    """`(x @ y) @ z` of square matrices: what is between is in the workspace, and takes a while."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "y"], ["p"]), helper.make_node("MatMul", ["p", "z"], ["r"])]
    sides = [[value(name, TensorProto.FLOAT, [size, size]) for name in names] for names in ("xyz", "r")]
    return helper.make_model(helper.make_graph(nodes, "products", *sides), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run_without_memory(size: int) -> list[str]:
    """Run a model of which neither workspace nor result can be had, in several ways; returns the errors."""
    model = stepwell.compile(products(size), threads=1)
    arrays = dict.fromkeys("xyz", np.zeros((size, size), np.float32))
    result = np.zeros((size, size), np.float32)
    limit = address_space() + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    errors = []
    for run in (lambda: model(*arrays.values()), lambda: model.run(arrays), lambda: model.run(arrays, out={"r": result})):
        try:
            run()
        except stepwell.ResourceError as error:
            errors.append(str(error))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return errors


def interrupt_runs(size: int, rounds: int) -> tuple[int, int]:
    """Have Ctrl-C arrive while a model runs, and run it again; returns how often it did, and how many workspaces there are in the end."""
    model = stepwell.compile(products(size), threads=2)
    rng = np.random.default_rng(size)
    arrays = [rng.standard_normal((size, size), np.float32) for _ in "xyz"]
    (want,) = model(*arrays)
    begin = time.perf_counter()
    model(*arrays)
    seconds = time.perf_counter() - begin
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    count = 0
    for i in range(rounds):
        signal.setitimer(signal.ITIMER_REAL, seconds * (i + 0.5) / rounds)
        try:
            model(*arrays)
            signal.pause()
        except KeyboardInterrupt:
            count += 1
        assert np.array_equal(model(*arrays)[0], want)
    return count, len(model.executable.workspaces)


def need_no_compiler_processes() -> None:
    """Have this process believe in one core: it then compiles small models by itself, which takes less time."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[os.getpid() % len(os.sched_getaffinity(0))]})


def run_child(model: "stepwell.CompiledModel", seed: int) -> int:
    """In a forked process: run a model of the parent's, compile another one, run that; returns how many threads the first was run on."""
    faulthandler.register(signal.SIGALRM, chain=True)  # says where it hangs
    signal.alarm(30)
    check(model(X)[0], seed)
    compile_and_check(seed + 1)
    runtime = openmp()
    assert runtime is not None
    return runtime.set_threads(1)


def fork(work: Callable[[], object]) -> int:
    """Do `work` in a forked process; returns its exit status, which is below zero for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


_model: Any = None  # of the parent's, for the workers of pools


def _work(seed: int) -> int:
    return run_child(_model, seed)


def forked_children(first: str) -> None:
    """Use models in children of all kinds, once the parent has run one on two threads. `first` is imported before Stepwell is used."""
    global _model
    need_no_compiler_processes()
    importlib.import_module(first)
    _model = stepwell.compile(network(2), threads=2)
    check(_model(X)[0], 2)
    assert fork(lambda: run_child(_model, 2)) == 0
    assert fork(lambda: os._exit(fork(lambda: run_child(_model, 2)))) == 0
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        pool.map(_work, [2, 2])
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        list(executor.map(_work, [2, 2]))
    check(_model(X)[0], 2)


def forks_beside_compiling(count: int) -> list[int]:
    """Fork, again and again, while another thread compiles and two run a model; returns the exit statuses."""
    need_no_compiler_processes()
    model, done = stepwell.compile(network(2), threads=2), threading.Event()

    def compile_all() -> None:
        seed = 10
        while not done.is_set():
            compile_and_check(seed)
            seed += 1

    def run() -> None:
        while not done.is_set():
            check(model(X)[0], 2)

    others = [threading.Thread(target=work, daemon=True) for work in (compile_all, run, run)]
    for thread in others:
        thread.start()
    statuses = []
    for i in range(count):
        time.sleep(0.02 * i)
        statuses.append(fork(lambda: run_child(model, 2)))
    done.set()
    for thread in others:
        thread.join()
    return statuses


def modules_looked_for_again() -> dict[str, int]:
    """The modules that a compilation has Python look for when one before it has loaded all there are, and how often."""
    need_no_compiler_processes()
    found: collections.Counter[str] = collections.Counter()

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            found[name] += 1

    compile_and_check(1)
    sys.meta_path.insert(0, Finder)
    compile_and_check(2)
    return dict(found)


def forked_where_openmp_was_started_before() -> list[str]:
    """As where another library has started the runtime, not to be told of forks; returns the warnings of the child."""
    os.environ["KMP_INIT_AT_FORK"] = "FALSE"
    path = find_libomp()
    assert path is not None
    ctypes.CDLL(path).omp_get_max_threads()
    model = stepwell.compile(network(2), threads=2)
    check(model(X)[0], 2)
    reading, writing = os.pipe()

    def work() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert run_child(model, 2) == 1
        os.write(writing, "|".join(str(warning.message) for warning in caught).encode())

    assert fork(work) == 0
    check(model(X)[0], 2)
    return os.read(reading, 10000).decode().split("|")


def interrupt_imports(moments: list[float]) -> list[str]:
    """In forked processes that have loaded no compiler: have Ctrl-C arrive in the course of the first compilation, and compile again.

    `moments` are parts of the time that an undisturbed one takes. Returns what happened in each process.
    """
    need_no_compiler_processes()
    assert "torch_mlir" not in sys.modules
    begin = time.perf_counter()
    assert fork(lambda: compile_and_check(1)) == 0
    seconds = time.perf_counter() - begin
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    return [_interrupted(lambda moment=moment: signal.setitimer(signal.ITIMER_REAL, moment * seconds)) for moment in moments]


def interrupt_functions(places: list[float]) -> list[tuple[str, str]]:
    """As `interrupt_imports`, with Ctrl-C at the first entry of one of our functions, whoever calls it: native code too.

    `places` are parts of the list of functions, in the order in which a compilation enters them. Returns each function, and what happened.
    """
    need_no_compiler_processes()
    assert "torch_mlir" not in sys.modules

    def name(code: Any) -> str:
        return f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"

    def enter_all() -> None:
        entered: dict[str, None] = {}
        sys.setprofile(lambda frame, event, _: entered.setdefault(name(frame.f_code)) if event == "call" else None)
        compile_and_check(1)
        sys.setprofile(None)
        Path(file.name).write_text("\n".join(function for function in entered if function.startswith(SOURCES)))

    with tempfile.NamedTemporaryFile() as file:
        assert fork(enter_all) == 0
        functions = Path(file.name).read_text().split("\n")
    assert len(functions) > 1000

    def interrupt_at(function: str) -> None:
        def profile(frame: Any, event: str, _: object) -> None:
            if event == "call" and name(frame.f_code) == function:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

        sys.setprofile(profile)

    chosen = [functions[int(place * len(functions))] for place in places]
    return [(function, _interrupted(lambda function=function: interrupt_at(function))) for function in chosen]


def _interrupted(arrange: Callable[[], object]) -> str:
    """What happens in a forked process that arranges for Ctrl-C, compiles, and compiles again if it came."""

    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        arrange()
        try:
            compile_and_check(1)
            os._exit(3)  # it came too late
        except KeyboardInterrupt:
            compile_and_check(2)
            compile_and_check(1)

    return {0: "interrupted", 3: "late"}.get(fork(work), "failed")
