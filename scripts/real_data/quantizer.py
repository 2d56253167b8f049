"""The interface of quantisers: settings by name, and a function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import onnx

from real_data.trial import Trial

__all__ = ["Quantizer"]

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Quantizer(Generic[Settings]):
    """A quantiser and its settings."""

    settings: Mapping[str, Settings]
    call: Callable[[Trial, Settings], onnx.ModelProto]

    def quantised(self, trial: Trial, setting: str) -> onnx.ModelProto:
        """The trial's network in Q/DQ format."""
        return self.call(trial, self.settings[setting])
