"""The engines: how each loads a model and runs it. Used only inside the process of one engine."""

import atexit
import importlib
import importlib.metadata
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmark.jobs import Contestant, Failure, Feed, Job, TensorSpec
from benchmark.peer_engines import Mnn, Ncnn, import_mnn, import_ncnn
from benchmark.system import multiplies_bytes
from benchmark.throughput import Done
from benchmark.tuned import plan_file

__all__ = ["CONTROLLED", "IMPORTS", "Engine", "environment", "load"]


class Engine(Protocol):
    """A model loaded in an engine."""

    settings: dict[str, str]

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs."""

    def call(self, feed: Feed) -> Any:
        """One run, through the engine's own Python call: this is timed."""

    def arrays(self, result: Any) -> list[np.ndarray]:
        """The outputs of a call, in the model's order; copies that stay valid after the next call."""


CONTROLLED = ("KMP_BLOCKTIME", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "STEPWELL_CACHE", "STEPWELL_CACHE_DIR")
"""Environment variables that the process of an engine gets from `environment`, or does not have at all."""


def environment(job: Job) -> dict[str, str]:
    """Environment variables that the process of a job must start with."""
    # OMP_WAIT_POLICY=active would have OpenMP's workers spin for ever, in other engines' turns too: 200 ms is libomp's own default.
    variables = {"KMP_BLOCKTIME": "200"} if job.spin else {"KMP_BLOCKTIME": "0", "OMP_WAIT_POLICY": "passive"}
    if job.cache is not None:
        variables["STEPWELL_CACHE_DIR"] = job.cache
    return variables


def load(job: Job) -> Engine:
    """The model of a job, ready to run."""
    return _LOADERS[job.contestant.engine](job)


def last_ir(of: Contestant, file: str, shapes: Mapping[str, tuple[int, ...]], level: str | None) -> str:
    """The IR of a model from which a variant of stepwell generates machine code: equal text gives equal code."""
    import stepwell
    from stepwell.pipelines.routes import CPU_PATH

    if level is None:
        return str(stepwell.lower(file, CPU_PATH.last, shapes=dict(shapes) or None, **_how(of)).module)
    from stepwell.cli.files import read_text, read_weights
    from stepwell.driver.lowering import descend

    weights, _ = read_weights(file, None)
    return str(descend(stepwell.read_ir(read_text(file), level, weights, name=file, **_how(of)), CPU_PATH.last).module)


def _how(of: Contestant) -> dict[str, Any]:
    """The options of a variant of stepwell; its plugins are loaded."""
    if of.plugins:
        from stepwell.plugin_files import load_file

        for file in of.plugins:
            load_file(file)
    given: dict[str, Any] = {"pipeline": of.pipeline, "schedule": of.schedule, "precision": of.precision}  # another checkout may not know these
    given["reproducible"] = of.reproducible
    return {"disable": of.disable, "target": of.target, **{name: value for name, value in given.items() if value}}


class _Stepwell:
    def __init__(self, job: Job) -> None:
        import stepwell

        of, how = job.contestant, _how(job.contestant)
        if of.plans and (plan := plan_file(Path(of.plans), Path(job.model), job.threads)).exists():
            how["plan"] = str(plan)
        model: Any
        if of.bundled:
            folder = tempfile.mkdtemp(prefix="stepwell-bench-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            stepwell.bundle(job.model, folder, prefix="network", kinds=("shared",), shapes=job.shapes or None, **how)
            model = stepwell.load(folder, threads=job.threads, copied=of.copied)
        elif job.level is not None:
            from stepwell.cli.files import read_text, read_weights

            weights, _ = read_weights(job.model, None)
            model = stepwell.compile_ir(read_text(job.model), job.level, weights, threads=job.threads, name=job.model, **how)
        else:
            model = stepwell.compile(job.model, threads=job.threads, shapes=job.shapes or None, **how)
        pool = sys.modules.get("stepwell.backends.llvm_cpu.pool")
        if pool is not None and job.is_last:
            pool.shut_down()  # the compiler's processes: nothing more is compiled here
        if not of.bundled and not isinstance(model, stepwell.CompiledModel):
            free = ", ".join(f"{info.name} {info}" for info in model.inputs)
            raise Failure(f"the model has free dimensions; give shapes with --shape: {free}")
        self.model = model
        self.settings = {"threads": str(job.threads), "target": of.target, "OpenMP idle workers": "spin for 200 ms" if job.spin else "sleep at once"}
        self.settings |= {"precision": of.precision} if of.precision else {}
        self.call: Callable[[Feed], Any] = model.run
        if of.sharing:
            given = {"callers": job.callers} if of.sharing == "auto" else {"threads": job.threads // job.streams}
            self.streams = model.streams("auto" if of.sharing == "auto" else job.streams, queue=job.callers, **given)
            self.call = lambda feed: self.streams.submit(feed).result()
            self.settings["streams x threads"] = self.streams.choice.why
            del self.settings["OpenMP idle workers"]

    def start(self, feed: Feed, done: Done) -> None:
        self.streams.submit(feed).add_done_callback(lambda future: done(future.exception()))

    def inputs(self) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(i.name, tuple(int(size or 0) for size in i.shape), i.dtype.name) for i in self.model.inputs)

    def arrays(self, result: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return list(result.values())


class _OnnxRuntime:
    def __init__(self, job: Job) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = job.threads // job.streams
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3  # warnings about initializers that are listed as inputs say nothing here
        spinning = "1" if job.spin else "0"
        options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
        options.add_session_config_entry("session.inter_op.allow_spinning", spinning)
        # Without VNNI its sums of bytes would saturate. With it they are exact anyway, and this would keep it from using it.
        exact = "0" if multiplies_bytes() else "1"
        options.add_session_config_entry("session.x64quantprecision", exact)
        self.session = onnxruntime.InferenceSession(job.model, options, providers=["CPUExecutionProvider"])
        self.shapes = job.shapes
        self.executor = ThreadPoolExecutor(job.streams) if job.contestant.sharing else None
        self.settings = {"streams x threads": f"{job.streams}x{options.intra_op_num_threads}"} if job.contestant.sharing else {}
        self.settings |= {"intra_op_num_threads": str(options.intra_op_num_threads), "session.intra_op.allow_spinning": spinning}
        self.settings |= {"optimisation": "all", "session.x64quantprecision": exact}

    def inputs(self) -> tuple[TensorSpec, ...]:
        return tuple(_spec(i.name, i.shape, _ONNXRUNTIME_DTYPES.get(i.type, i.type), self.shapes) for i in self.session.get_inputs())

    def call(self, feed: Feed) -> Any:
        return self.session.run(None, feed)

    def start(self, feed: Feed, done: Done) -> None:
        assert self.executor is not None
        self.executor.submit(self.call, feed).add_done_callback(lambda future: done(future.exception()))

    def arrays(self, result: Sequence[np.ndarray]) -> list[np.ndarray]:
        return list(result)


class _OpenVINO:
    def __init__(self, job: Job) -> None:
        import openvino

        settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": job.threads}
        settings |= {"PERFORMANCE_HINT": "THROUGHPUT"} if job.contestant.sharing else {"NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        settings["INFERENCE_PRECISION_HINT"] = job.contestant.precision or "f32"  # it would use bf16 where the processor has it
        core = openvino.Core()
        if job.cache is not None:
            core.set_property({"CACHE_DIR": job.cache})
        model = core.read_model(job.model)
        if job.shapes:
            model.reshape({name: list(shape) for name, shape in job.shapes.items()})
        self.compiled = core.compile_model(model, "CPU", settings)
        self.request = self.compiled.create_infer_request()
        self.queue: Any = None
        if job.contestant.sharing:
            self.queue = openvino.AsyncInferQueue(self.compiled)  # as many requests as it finds best
            self.queue.set_callback(lambda request, done: done(None))
            settings |= {name: self.compiled.get_property(name) for name in ("NUM_STREAMS", "OPTIMAL_NUMBER_OF_INFER_REQUESTS")}
        self.shapes = job.shapes
        self.settings = {**{key: str(value) for key, value in settings.items()}, "idle workers": "as TBB has it: no setting"}

    def inputs(self) -> tuple[TensorSpec, ...]:
        specs = []
        for port in self.compiled.inputs:
            sizes = [d.get_length() if d.is_static else None for d in port.partial_shape]
            specs.append(_spec(port.get_any_name(), sizes, np.dtype(port.element_type.to_dtype()).name, self.shapes))
        return tuple(specs)

    def call(self, feed: Feed) -> Any:
        return self.request.infer(feed, share_inputs=True, share_outputs=True)

    def start(self, feed: Feed, done: Done) -> None:
        self.queue.start_async(feed, done, share_inputs=True)

    def arrays(self, result: Any) -> list[np.ndarray]:
        return [np.array(result[port]) for port in self.compiled.outputs]


_ONNXRUNTIME_DTYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(bool)": "bool",
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip


def _spec(name: str, sizes: Sequence[Any], dtype: str, shapes: Mapping[str, tuple[int, ...]]) -> TensorSpec:
    shape = shapes.get(name, tuple(sizes))
    if not all(isinstance(size, int) for size in shape):
        raise Failure(f"input '{name}' has free dimensions: give its shape with --shape")
    return TensorSpec(name, tuple(shape), dtype)


_LOADERS: dict[str, Callable[[Job], Engine]] = {
    "stepwell": _Stepwell, "onnxruntime": _OnnxRuntime, "openvino": _OpenVINO, "mnn": Mnn, "ncnn": Ncnn,
}  # fmt: skip


def _import_stepwell() -> str:
    _ = importlib.import_module("stepwell").compile  # loads the modules for loading a model from the cache, in any checkout; the rest on demand
    try:
        return importlib.metadata.version("stepwell")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"  # imported from a checkout


def _import_onnxruntime() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def _import_openvino() -> str:
    import openvino

    return str(openvino.__version__)


IMPORTS: dict[str, Callable[[], str]] = {
    "stepwell": _import_stepwell, "onnxruntime": _import_onnxruntime, "openvino": _import_openvino, "mnn": import_mnn, "ncnn": import_ncnn,
}  # fmt: skip
"""Import an engine; gives its version."""
