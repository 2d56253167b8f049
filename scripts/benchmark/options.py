"""The options of scripts/bench.py. Standard library alone until a parser is made: the script may yet have to install the rest."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["make_parser"]

ROOT = Path(__file__).resolve().parents[2]


OF_TUNED = 8
"""The number of processes that compare plans: the placement of one process makes a network up to 6 % slower or faster, more than a plan does."""


def make_parser() -> argparse.ArgumentParser:
    """The options."""
    from benchmark.jobs import ENGINES, PEERS
    from benchmark.models import KNOWN

    parser = argparse.ArgumentParser(description="Compare Stepwell with ONNX Runtime, OpenVINO, MNN and ncnn. Nothing else may run on the machine.")
    add = parser.add_argument
    add("networks", nargs="*", metavar="NETWORK", help=f"an ONNX file, IR, or one of {', '.join(KNOWN)} (default: all)")
    add("--operators", nargs="?", const="", metavar="REGEX", help="single operators in place of networks: all, or those that it is found in")
    add("--int8", action="store_true", help="networks quantised to bytes, the same files for all engines; and Stepwell with the networks of floats")
    add("--weights", choices=("int4", "int8"), help="networks whose matrices alone are stored in so many bits, the same files for all engines")
    halves = "networks stored in f16, the same files for all engines, or of floats, which Stepwell and OpenVINO compute in bf16"
    add("--precision", choices=("f16", "bf16"), help=f"{halves}; and Stepwell in f32")
    add("--block", type=int, choices=(16, 32, 64, 128), default=32, help="with --weights: rows of a matrix that have a scale together (default: 32)")
    add("--zero-points", action="store_true", help="with --weights: with zero points")
    add("--accuracy-level", type=int, choices=(0, 4), default=0, help="with --weights: what MatMulNBits allows; with 4 ONNX Runtime rounds to bytes")
    add("--verbose", action="store_true", help="with --operators: say why an engine did not take part, and where the models are")
    add("--from", dest="level", metavar="LEVEL", help="the level of files of IR (.mlir, with their weights beside them): Stepwell alone runs these")
    add("--load", action="append", default=[], metavar="FILE.py", help="a plugin that Stepwell loads first; may be repeated")
    add("--pipeline", metavar="FILE|TEXT", help="a pipeline for Stepwell, which takes part with and without it")
    add("--schedule", metavar="FILE", help="a schedule file for the one network, with and without which Stepwell takes part")
    peers = f"{', '.join(ENGINES)} (default: all of these that are installed), {', '.join(PEERS)} (in an environment of their own, made at first)"
    add("--tuned", action="store_true", help="tune the networks that have no plan yet, and let Stepwell take part with the plans, too")
    add("--budget", default="10m", metavar="TIME", help="with --tuned: how long to tune each network on each number of threads (default: 10m)")
    add("--plans", type=Path, default=ROOT / "build" / "plans", metavar="DIR", help="with --tuned: where plans are (default: build/plans)")
    add("--bundle", action="store_true", help="let Stepwell take part as a bundle, too, through its interface in C")
    add("--copied", action="store_true", help="let it take part as a bundle that copies its weights into memory of large pages, too")
    add("--throughput", action="store_true", help="several callers at once: images a second, and how long answers take, on all cores")
    add("--callers", type=count, metavar="N", help="with --throughput: how many, each of which waits for its answers (default: 8)")
    add("--reproducible", action="store_true", help="let it take part with results that are the same on every machine, too")
    add("--engines", type=names({**ENGINES, **PEERS}), metavar="A,B", help=f"some of {peers}")
    add("--threads", type=counts, default=[1, 2], metavar="N,M", help="numbers of threads (default: 1,2)")
    add("--against", type=Path, metavar="DIR", help="another checkout of stepwell, whose package takes part too, in this one's environment")
    add("--target", default="host", metavar="NAME", help="what Stepwell compiles for (default: host); peers use what they find")
    add("--rounds", type=count, default=10, help="how often each engine has its turn (default: 10)")
    shared = "how many of each engine, one after the other, the rounds are shared out to"
    add("--processes", type=count, metavar="N", help=f"{shared} (default: 1; with --tuned {OF_TUNED})")
    add("--runs", type=count, default=10, help="timed runs in a turn (default: 10)")
    add("--repeats", type=number, default=3, help="how often a turn is repeated where the machine gives less of its cores than it can (default: 3)")
    add("--warm-up", type=count, default=3, help="runs before them, at least, and for at least a tenth of a second (default: 3)")
    add("--images", type=count, default=3, help="different inputs that the runs take in turn (default: 3)")
    add("--spin", choices=("on", "off"), default="on", help="whether idle workers of an engine wait actively for more, as the engines do by default")
    add("--pause", type=seconds, default=0.5, metavar="S", help="seconds of sleep before each turn (default: 0.5)")
    add("--classical", action="store_true", help="the protocol of the TVM–Glow comparison: one image, 100 runs, their mean")
    add("--no-starts", action="store_true", help="measure no cold and warm starts and no overhead of calls")
    add("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help="the shape of an input with free dimensions; may be repeated")
    add("--seed", type=int, default=0, help="of the zoo's weights (default: 0)")
    add("--zoo", type=Path, default=ROOT / "build" / "zoo", metavar="DIR", help="where the networks' files are kept (default: build/zoo)")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured")
    add("--plot", type=Path, metavar="FILE.png", help="draw the ratios")
    add("--ablate", action="store_true", help="instead of peers compare Stepwell with itself, one switch off at a time")
    add("--switch", type=listed, action="extend", metavar="A,B", help="only these, with --ablate")
    kernels = "the time of each kernel of networks (default: all), its GFLOP/s, share of the peak, and ONNX nodes"
    add("--profile", nargs="*", metavar="NETWORK", help=f"{kernels}; with --against the fastest run of each, beside that of the other checkout")
    add("--fork-join", action="store_true", help="what it costs to start threads, and from what size on a loop gains by them")
    return parser


def number(text: str, least: int = 0) -> int:
    """A whole number from `least`."""
    value = int(text) if text.isdecimal() else -1
    if value < least:
        raise argparse.ArgumentTypeError(f"expected a number from {least}, got '{text}'")
    return value


def count(text: str) -> int:
    """A whole number from 1."""
    return number(text, 1)


def counts(text: str) -> list[int]:
    """Several numbers, each once."""
    return list(dict.fromkeys(count(part) for part in text.split(",")))


def seconds(text: str) -> float:
    """A time that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 60:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 60, got '{text}'")
    return value


def listed(text: str) -> list[str]:
    """Several names."""
    return [part.strip() for part in text.split(",") if part.strip()]


def names(known: Sequence[str] | dict[str, str]) -> Callable[[str], list[str]]:
    """Several names out of the known ones."""

    def parse(text: str) -> list[str]:
        chosen = list(dict.fromkeys(listed(text)))
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"there is no '{name}'; there are {', '.join(known)}")
        return chosen

    return parse
