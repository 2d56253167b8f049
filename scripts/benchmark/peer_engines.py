"""The engines of the peers' environment: how each loads what was converted for it, and runs it. Used inside the process of one engine only."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.jobs import Failure, Feed, Job, TensorSpec

__all__ = ["Mnn", "Ncnn", "import_mnn", "import_ncnn"]

WINOGRAD_MEMORY_LEVEL = 3  # MNN's number of that hint: from 0, the least, to 3, the default, how large the tiles of Winograd's method may be
IDLE = {True: "as libgomp has it", False: "sleep"}


class _Peer:
    """A model that was converted for a peer."""

    def __init__(self, job: Job) -> None:
        self.folder = Path(job.model)
        self.about: dict[str, Any] = json.loads((self.folder / "about.json").read_text())
        self.specs = tuple(TensorSpec(spec["name"], tuple(spec["shape"]), spec["dtype"]) for spec in self.about["inputs"])

    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.specs

    def shaped(self, number: int, array: np.ndarray) -> np.ndarray:
        """An output, copied, in the shape that the network states, where that has as many elements."""
        shape = self.about["outputs"][number]
        return np.array(array).reshape(shape if np.prod(shape, dtype=np.int64) == array.size else array.shape)


class Mnn(_Peer):
    """MNN through its sessions; the results are read into arrays of floats, as an int8 network keeps its own in bytes."""

    def __init__(self, job: Job) -> None:
        import MNN

        super().__init__(job)
        self.mnn = MNN
        self.interpreter = MNN.Interpreter(str(self.folder / "model.mnn"))
        self.interpreter.setSessionHint(WINOGRAD_MEMORY_LEVEL, self.about["winograd"])
        self.session = self.interpreter.createSession({"backend": "CPU", "numThread": job.threads, "precision": "high"})
        self.given = [(spec, self.interpreter.getSessionInput(self.session, f"in{i}")) for i, spec in enumerate(self.specs)]
        self.results = []
        for i in range(len(self.about["outputs"])):
            result = self.interpreter.getSessionOutput(self.session, f"out{i}")
            space = np.zeros(result.getShape(), np.float32)
            self.results.append((result, MNN.Tensor(space.shape, MNN.Halide_Type_Float, space, MNN.Tensor_DimensionType_Caffe)))
        weights = "int8 by its own quantiser" if self.about["int8"] else "f32"
        self.settings = {"numThread": str(job.threads), "precision": "high", "network": weights, "idle workers": IDLE[job.spin]}

    def call(self, feed: Feed) -> Any:
        mnn = self.mnn
        for spec, tensor in self.given:
            tensor.copyFrom(mnn.Tensor(spec.shape, mnn.Halide_Type_Float, feed[spec.name], mnn.Tensor_DimensionType_Caffe))
        status = self.interpreter.runSession(self.session)
        if status != 0:
            raise Failure(f"runSession gave {status}")
        for result, host in self.results:
            result.copyToHostTensor(host)
        return self.results

    def arrays(self, result: Any) -> list[np.ndarray]:
        return [self.shaped(i, host.getNumpyData()) for i, (_, host) in enumerate(result)]


class Ncnn(_Peer):
    """ncnn with arithmetic and weights in f32."""

    def __init__(self, job: Job) -> None:
        import ncnn

        super().__init__(job)
        self.mat = ncnn.Mat
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = job.threads
        options.use_vulkan_compute = False
        for kind in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage"):
            setattr(options, f"use_{kind}", False)
        for read, file in ((self.net.load_param, "model.ncnn.param"), (self.net.load_model, "model.ncnn.bin")):
            if read(str(self.folder / file)) != 0:
                raise Failure(f"it cannot load {file}")
        batch = self.about["batch"]
        self.given = [(f"in{i}", spec.name, _batch(batch[f"in{i}"])) for i, spec in enumerate(self.specs)]
        self.results = [(f"out{i}", _batch(batch[f"out{i}"])) for i in range(len(self.about["outputs"]))]
        self.settings = {"num_threads": str(job.threads), "fp16 and bf16": "off", "idle workers": IDLE[job.spin]}

    def call(self, feed: Feed) -> Any:
        found = []
        with self.net.create_extractor() as extractor:
            for blob, name, batch in self.given:
                extractor.input(blob, self.mat(feed[name], **batch))
            for blob, _ in self.results:
                status, mat = extractor.extract(blob)
                if status != 0:
                    raise Failure(f"extract('{blob}') gave {status}")
                found.append(mat)
        return found

    def arrays(self, result: Any) -> list[np.ndarray]:
        return [self.shaped(i, mat.numpy(**batch)) for i, (mat, (_, batch)) in enumerate(zip(result, self.results, strict=True))]


def _batch(index: int | None) -> dict[str, int]:
    return {} if index is None else {"batch_index": index}


def import_mnn() -> str:
    """MNN's version."""
    import MNN

    return str(MNN.version())


def import_ncnn() -> str:
    """ncnn's version."""
    import ncnn

    return str(ncnn.__version__)
