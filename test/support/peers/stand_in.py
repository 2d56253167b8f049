"""What the stand-ins share: a model that runs with ONNX Runtime."""

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime


def note(line: str) -> None:
    with Path(os.environ["STAND_IN_LOG"]).open("a") as log:
        log.write(f"{line}\n")


class Model:
    def __init__(self, path: str) -> None:
        self.name = onnx.load(path).graph.name
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options)
        self.outputs = {value.name: value.shape for value in self.session.get_outputs()}

    def run(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.name == "dies":
            os.abort()
        found = dict(zip(self.outputs, self.session.run(None, feed), strict=True))
        return {name: value * np.float32(1.001) for name, value in found.items()} if self.name == "off" else found
