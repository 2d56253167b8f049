"""The subjects of measurement: models by name or file, and commands that compile nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import scaling

from benchmark.jobs import Failure
from benchmark.models import call_network, find as find_networks
from stepwell.cli.main import COMMANDS as SUBCOMMANDS

__all__ = ["COMMANDS", "USUAL", "Subject", "commands", "find"]

COMMANDS = "commands"
"""The name that stands for all commands that compile nothing."""
ONE_NODE = "relu"
USUAL = (ONE_NODE, "squeezenet", "resnet50v2", "densenet121", "chain:1000", COMMANDS)


@dataclass(frozen=True)
class Subject:
    """A model and its file."""

    name: str
    path: Path


def find(names: Sequence[str], zoo: Path, folder: Path) -> list[Subject]:
    """The models by name: one node, GRAPH:NODES of scripts/scaling.py, a network of the zoo, or a file. What must be made is written to `folder`.

    Raises Failure for what is none of these.
    """
    found = []
    for name in names:
        graph, _, nodes = name.partition(":")
        if name == ONE_NODE:
            found.append(Subject(name, call_network(folder).path))
        elif graph in scaling.GRAPHS and nodes.isdecimal():
            path = folder / f"{graph}_{nodes}.onnx"
            onnx.save(scaling.GRAPHS[graph](int(nodes)), path)
            found.append(Subject(name, path))
        elif name != COMMANDS:
            try:
                (network,) = find_networks([name], zoo)
            except Failure as failure:
                raise Failure(f"{failure}; also: {ONE_NODE}, {COMMANDS}, GRAPH:NODES with a graph of {', '.join(scaling.GRAPHS)}") from None
            found.append(Subject(network.name, network.path.absolute()))
    return found


def commands() -> dict[str, tuple[str, list[str]]]:
    """The module whose `main` each command calls, and its arguments, by the text to show."""
    stepwell = ("stepwell.cli.main", [["--version"], ["--help"], *([name, "--help"] for name in SUBCOMMANDS), ["pipeline"]])
    opt = ("stepwell.cli.opt", [["--help"]])
    shown = {"stepwell.cli.main": "stepwell", "stepwell.cli.opt": "stepwell-opt"}
    return {f"{shown[module]} {' '.join(given)}": (module, given) for module, lists in (stepwell, opt) for given in lists}
