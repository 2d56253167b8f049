"""Engines that run a network sample by sample, on one thread: most of these networks are too small to share."""

from collections.abc import Callable

import numpy as np
import onnx

from real_data.trial import Feed, Outputs

__all__ = ["ENGINES", "in_onnxruntime", "in_stepwell"]

Run = Callable[[Feed], Outputs]


def in_stepwell(model: onnx.ModelProto, example: Feed) -> Run:
    """Compile it for the shapes of that sample, which all others have too."""
    import stepwell

    return stepwell.compile(model, shapes={name: array.shape for name, array in example.items()}, threads=1).run


def in_onnxruntime(model: onnx.ModelProto, example: Feed) -> Run:
    """Load it, with products of bytes that are exact: those that ONNX Runtime takes by default on AVX2 saturate."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(feed: Feed) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(None, feed), strict=True))

    return run


ENGINES: dict[str, Callable[[onnx.ModelProto, Feed], Run]] = {"stepwell": in_stepwell, "onnxruntime": in_onnxruntime}
