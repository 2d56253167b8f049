"""A network that is tuned although all of its candidates have the code of the default: whatever is confirmed is a mistake."""

import itertools
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from stepwell.database.provenance import provenance_of
from stepwell.database.records import Run
from stepwell.dialects.target.cores import available_cores
from stepwell.dialects.target.registry import resolve
from stepwell.options import CompileOptions
from stepwell.tuning.device import Built, Fault, Request
from stepwell.tuning.executor import LocalExecutor
from stepwell.tuning.measuring import PARTS
from stepwell.tuning.native import NativeDevice
from stepwell.tuning.network import Network
from stepwell.tuning.recorder import Recorder
from stepwell.tuning.subject import Taken, Texts
from stepwell.tuning.tuner import Settings, Tuner


@dataclass(frozen=True)
class Same:
    """A request for code that exists."""

    code: Built

    def answer(self) -> Built:
        """See `Request`."""
        return self.code


class SameNetwork(Network):
    """A network whose candidates have the code of the default."""

    def request(self, part: str, texts: Texts) -> Same:  # type: ignore[override]
        """See `Subject`."""
        return Same(self.whole if part == PARTS else next(one.default for one in self.parts if one.name == part))

    def request_whole(self, taken: Taken) -> Same:  # type: ignore[override]
        """See `Subject`."""
        return Same(self.whole)

    def rebased(self, texts: Texts) -> "SameNetwork":
        """See `Subject`."""
        return self


class SameDevice(NativeDevice):
    """A device that takes each build for code of its own."""

    numbers = itertools.count()

    def build(self, requests: Sequence[Request[Built]], timeout: float) -> list[Built | Fault]:
        """See `Device`."""
        return [replace(request.answer(), digest=f"{next(self.numbers)}") for request in requests]


def tune_same(model: Path, shapes: Mapping[str, Sequence[int]], seed: int, budget: float, threads: int) -> bool:
    """Tune a network once, for `budget` seconds, and print the outcome; returns whether a plan was confirmed."""
    how = CompileOptions(shapes=dict(shapes))
    target = resolve(how.machine)
    provenance = provenance_of(target)
    with closing(LocalExecutor(available_cores())) as executor:
        network = SameNetwork(str(model), how, name=model.stem, threads=threads, put=executor.store.put)
        recorder = Recorder(None, Run(model.stem, "", target.digest, threads, seed, budget), provenance)
        tuned = Tuner(network, SameDevice(network.program, executor, threads), Settings(budget, threads, seed), recorder, provenance).run()
    said = "nothing" if tuned.ratio is None else f"{tuned.ratio.value:.4f} [{tuned.ratio.low:.4f} {tuned.ratio.high:.4f}]"
    print(f"{model.stem}, seed {seed}: {len(tuned.story.attempts)} candidates tried, confirmed: {said}", flush=True)
    return tuned.plan is not None
