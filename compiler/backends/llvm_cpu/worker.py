"""A compiler process: reads units from its standard input, writes their objects; ends with the input, and with the process that started it.

A request is a unit and the libraries for compiling it, or an object that answers by itself (`driver.background.CompileRequest`).
"""

import collections
import gc
import os
import pickle
import struct
import sys
from typing import Any, BinaryIO

from stepwell.backends.llvm_cpu.lifetime import end_with_parent

_ENGINES = 16
"""The number of LLVM's engines that a process keeps. One has 1.2 MB and takes 2 ms to destroy, which a process that is killed saves."""
# Every message: its length in 8 bytes, then a pickle. Both ends are processes of the same program and user.
LENGTH = struct.Struct("<Q")


def send(stream: BinaryIO, message: Any) -> None:
    """Write one message. The stream may be unbuffered, as in `receive`."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    rest = memoryview(LENGTH.pack(len(data)) + data)
    while len(rest):
        rest = rest[stream.write(rest) :]
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message. Raises EOFError if the stream ends, even within a message."""
    (length,) = LENGTH.unpack(_read(stream, LENGTH.size))
    return pickle.loads(_read(stream, length))


def _read(stream: BinaryIO, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def main(parent: int) -> None:
    """Serve the process `parent` on the standard streams, and end with it."""
    end_with_parent(parent, sys.stdin.fileno())
    requests = sys.stdin.buffer
    # Output that LLVM or others print must not get between the answers: standard output becomes standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(requests, answers)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the other end closes the pipe or is gone."""
    from stepwell.backends.llvm_cpu.objects import compile_unit, make_engine_context
    from stepwell.dialects.support.errors import StepwellError
    from stepwell.passes import affine_to_llvm  # noqa: F401  (units will need it, and now there is time)
    from stepwell.passes.framework import runner  # noqa: F401  (and this)

    context = make_engine_context()
    engines: collections.deque[Any] = collections.deque(maxlen=_ENGINES)
    gc.freeze()  # collections need not look at modules, nor, in a forked process, write to what it shares with its parent
    try:
        while True:
            request = receive(requests)
            try:
                answer: bytes | StepwellError = (
                    compile_unit(request[0], context, request[1], engines) if isinstance(request, tuple) else request.answer()
                )
            except StepwellError as error:
                answer = error
            send(answers, answer)
    except (EOFError, BrokenPipeError):
        return
