#!/usr/bin/env python3
"""Tune networks whose candidates all have the code of the default, and count how often a plan is confirmed, which then is a mistake.

    .venv/bin/python scripts/check_tuner.py [NETWORK | FILE.onnx ...] [--runs 20] [--budget 30s] [--threads N]

This is `stepwell tune` but for the builds: each candidate counts as code of its own and is loaded like one, so races, confirmations and the
comparison of whole networks run on this machine as they do for real candidates. The exit status is 1 if a plan was confirmed. Nothing else should run
on the machine.
"""

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import environment

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and tune; 0 if no plan was confirmed, 1 if one was or a network is missing, 2 for wrong usage (argparse)."""
    from bench import shapes

    from benchmark.jobs import Failure
    from benchmark.models import find

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["squeezenet"], metavar="NETWORK", help="files, or networks of the zoo (default: squeezenet)")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help="the shape of an input with free dimensions")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="how often to tune each network, with seeds from 0 (default: 20)")
    parser.add_argument("--budget", type=float, default=30.0, metavar="SECONDS", help="for each run (default: 30)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="in the runs of the network (default: 1)")
    parser.add_argument("--zoo", type=Path, default=ROOT / "build" / "zoo", metavar="DIR", help="where the networks are kept (default: build/zoo)")
    options = parser.parse_args(arguments)
    try:
        networks = find(options.networks, options.zoo, shapes=shapes(options))
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    confirmed = 0
    for network in networks:
        confirmed += sum(tune_same(network.path, network.shapes, seed, options.budget, options.threads) for seed in range(options.runs))
    print(f"{confirmed} of {len(networks) * options.runs} confirmed")
    return int(confirmed > 0)


def tune_same(model: Path, sizes: Mapping[str, Sequence[int]], seed: int, budget: float, threads: int) -> bool:
    """Tune a network once, and print the outcome; returns whether a plan was confirmed."""
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
            return self.code

    class SameNetwork(Network):
        """A network whose candidates have the code of the default."""

        def request(self, part: str, texts: Texts) -> Same:  # type: ignore[override]
            return Same(self.whole if part == PARTS else next(one.default for one in self.parts if one.name == part))

        def request_whole(self, taken: Taken) -> Same:  # type: ignore[override]
            return Same(self.whole)

        def rebased(self, texts: Texts) -> "SameNetwork":
            return self

    class SameDevice(NativeDevice):
        """A device that takes this code for different code."""

        numbers = itertools.count()

        def build(self, requests: Sequence[Request[Built]], timeout: float) -> list[Built | Fault]:
            return [replace(request.answer(), digest=f"{next(self.numbers)}") for request in requests]

    how = CompileOptions(shapes=dict(sizes))
    with closing(LocalExecutor(available_cores())) as executor:
        network = SameNetwork(str(model), how, name=model.stem, threads=threads, put=executor.store.put)
        device, settings = SameDevice(network.program, executor, threads), Settings(budget, threads, seed)
        target = resolve(how.machine)
        recorder = Recorder(None, Run(model.stem, "", target.digest, threads, seed, budget), provenance := provenance_of(target))
        tuned = Tuner(network, device, settings, recorder, provenance).run()
    said = "nothing" if tuned.ratio is None else f"{tuned.ratio.value:.4f} [{tuned.ratio.low:.4f} {tuned.ratio.high:.4f}]"
    print(f"{model.stem}, seed {seed}: {len(tuned.story.attempts)} candidates tried, confirmed: {said}", flush=True)
    return tuned.plan is not None


if __name__ == "__main__":
    environment.need(__doc__, "bench", "onnxruntime")
    sys.exit(main())
