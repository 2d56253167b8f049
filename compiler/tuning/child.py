"""A process that answers requests, one after the other. It imports little by itself: each request imports what it needs."""

import faulthandler
import resource
import select
from collections.abc import Sequence
from typing import BinaryIO

from stepwell.backends.llvm_cpu.lifetime import end_with_parent
from stepwell.backends.llvm_cpu.worker import receive, send
from stepwell.database.records import State
from stepwell.dialects.support.errors import StepwellError
from stepwell.tuning.blobs import Parcel, pack, use_store
from stepwell.tuning.device import Fault, Request

IDLE = 300.0
"""The seconds after which a process without work ends: its parent may belong to a pool that others use."""


def main(parent: int, descriptor: int, store: str, installed: bool, plugins: Sequence[str]) -> None:
    """Answer the requests of the process `parent`, which arrive at the socket `descriptor`, and end with it.

    Both output streams go to a log, from which the parent reads the last lines of a process that crashed. `store` is the folder of blobs,
    `installed` says whether plugins of installed packages are loaded, `plugins` are the files of others.
    """
    end_with_parent(parent, descriptor)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # a crash is a result and leaves no file
    faulthandler.enable()
    use_store(store)
    _load_plugins(installed, plugins)
    # The descriptor stays open until the process ends, so that its parent sees the end of the process when it sees the end of the connection.
    serve(open(descriptor, "rb", buffering=0, closefd=False), open(descriptor, "wb", buffering=0, closefd=False))  # noqa: SIM115


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the other end closes the connection, or for `IDLE` seconds nothing comes."""
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    while waiting.poll(IDLE * 1000):
        try:
            request: Request[object] = receive(requests)
        except EOFError:
            return
        send(answers, answer_to(request))


def answer_to(request: Request[object]) -> Parcel | Fault:
    """The answer to a request, or the StepwellError that it raised as a fault."""
    try:
        return pack(request.answer())
    except StepwellError as error:
        return Fault(State.FAILED, str(error))


def _load_plugins(installed: bool, plugins: Sequence[str]) -> None:
    if installed or plugins:
        from stepwell.plugin_files import load_file, load_installed  # imported here, because most users have no plugins

        if installed:
            load_installed()
        for file in plugins:
            load_file(file)
