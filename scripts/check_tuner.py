#!/usr/bin/env python3
"""Tune networks whose candidates all have the code of the default, and count how often a plan is confirmed, which then is a mistake.

    .venv/bin/python scripts/check_tuner.py [NETWORK | FILE.onnx ...] [--runs 20] [--budget 30s] [--threads N]

This is `stepwell tune` but for the builds: each candidate counts as code of its own and is loaded like one, so races, confirmations and the
comparison of whole networks run on this machine as they do for real candidates. The exit status is 1 if a plan was confirmed. Nothing else should run
on the machine.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import environment

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and tune; 0 if no plan was confirmed, 1 if one was or a network is missing, 2 for wrong usage (argparse)."""
    from bench import shapes

    from benchmark.jobs import Failure
    from benchmark.models import find
    from benchmark.options import count
    from benchmark.same_code import tune_same
    from stepwell.cli.common import UsageError
    from stepwell.cli.tune import parse_time

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["squeezenet"], metavar="NETWORK", help="files, or networks of the zoo (default: squeezenet)")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help="the shape of an input with free dimensions")
    parser.add_argument("--runs", type=count, default=20, metavar="N", help="how often to tune each network, with seeds from 0 (default: 20)")
    parser.add_argument("--budget", default="30s", metavar="TIME", help="for each run, such as 30s or 10m (default: 30s)")
    parser.add_argument("--threads", type=count, default=1, metavar="N", help="in the runs of the network (default: 1)")
    parser.add_argument("--zoo", type=Path, default=ROOT / "build" / "zoo", metavar="DIR", help="where the networks are kept (default: build/zoo)")
    options = parser.parse_args(arguments)
    try:
        budget, networks = parse_time(options.budget), find(options.networks, options.zoo, shapes=shapes(options))
    except (Failure, UsageError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    confirmed = 0
    for network in networks:
        confirmed += sum(tune_same(network.path, network.shapes, seed, budget, options.threads) for seed in range(options.runs))
    print(f"{confirmed} of {len(networks) * options.runs} confirmed")
    return int(confirmed > 0)


if __name__ == "__main__":
    environment.need(__doc__, "bench", "onnxruntime")
    sys.exit(main())
