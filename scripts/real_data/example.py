"""The layers and the training of examples/digits, which is a folder of programs and no package."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "examples" / "digits"
sys.path.append(str(FOLDER))

from layers import BatchNorm, Conv, Dense, Flatten, Layer, MaxPool, Relu  # noqa: E402
from train import network, to_onnx, train  # noqa: E402

__all__ = ["FOLDER", "ROOT", "BatchNorm", "Conv", "Dense", "Flatten", "Layer", "MaxPool", "Relu", "network", "to_onnx", "train"]
