"""Stands in for ncnn, whose arrays have no batch and know their last three dimensions alone."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from stand_in import Model

__version__ = "1.stand-in"


class Mat:
    def __init__(self, array: np.ndarray, batch_index: int | None = None) -> None:
        self.data = array if batch_index is None else array.squeeze(batch_index)

    def numpy(self, batch_index: int | None = None) -> np.ndarray:
        return self.data if batch_index is None else np.expand_dims(self.data, batch_index)


class Extractor:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.given: dict[str, np.ndarray] = {}

    def __enter__(self) -> "Extractor":
        return self

    def __exit__(self, *_: object) -> None:
        self.given.clear()

    def input(self, blob: str, mat: Mat) -> int:
        self.given[blob] = mat.data[None]
        return 0

    def extract(self, blob: str) -> tuple[int, Mat]:
        return 0, Mat(self.model.run(self.given)[blob], batch_index=0)


class Net:
    def __init__(self) -> None:
        self.opt = SimpleNamespace(use_fp16_storage=True)

    def load_param(self, path: str) -> int:
        if Path(path).read_text() == "refused":
            print("layer Unknown not exists or registered")
            return -1
        return 0

    def load_model(self, path: str) -> int:
        assert self.opt.use_fp16_storage is False
        self.model = Model(path)
        return 0

    def create_extractor(self) -> Extractor:
        return Extractor(self.model)
