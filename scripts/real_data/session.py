"""Runs a trial with every quantiser, setting and engine."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from real_data import TASKS, ort_quantizer, own_quantizer
from real_data.compare import Result, judged
from real_data.engines import ENGINES
from real_data.quantizer import Quantizer
from real_data.trial import Say

__all__ = ["QUANTIZERS", "results"]

QUANTIZERS: Mapping[str, Quantizer[Any]] = {"stepwell": own_quantizer.QUANTIZER, "onnxruntime": ort_quantizer.QUANTIZER}


def results(task: str, folds: int, settings: Mapping[str, list[str]], say: Say) -> Iterator[Result]:
    """The results of a task: for each fold those of the floats, then of each quantiser's settings that are named, each in each engine."""
    assert task in TASKS
    for trial in import_module(f"real_data.{task}").trials(folds, say):
        example = trial.samples[0]
        where = f"{trial.task}, fold {trial.fold + 1}"
        say(f"{where}: floats")
        by_engine = {engine: trial.answers(load(trial.model, example)) for engine, load in ENGINES.items()}
        floats = by_engine["stepwell"]
        for engine, answers in by_engine.items():
            yield judged(trial, floats, answers, "none", "floats", engine)
        for name, quantizer in QUANTIZERS.items():
            for setting in settings[name]:
                say(f"{where}: {name}'s quantiser, {setting}")
                model = quantizer.quantised(trial, setting)
                for engine, load in ENGINES.items():
                    yield judged(trial, floats, trial.answers(load(model, example)), name, setting, engine)
