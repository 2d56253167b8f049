"""Requests to processes of an executor that end in every way: classes of a module that other processes can import."""

import ctypes
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from stepwell.dialects.support.errors import ScheduleError
from stepwell.tuning import blobs
from stepwell.tuning.blobs import Blob


@dataclass(frozen=True)
class Square:
    """Answers with the square of a number and its process, after some seconds."""

    number: int
    seconds: float = 0.0

    def answer(self) -> tuple[int, int]:
        time.sleep(self.seconds)
        return self.number**2, os.getpid()


@dataclass(frozen=True)
class Weighed:
    """Answers, after some seconds, with a number that depends on its own alone, as a simulated measurement does."""

    number: int
    seconds: float

    def answer(self) -> float:
        time.sleep(self.seconds)
        return Random(self.number).gauss()


@dataclass(frozen=True)
class Ends:
    """Ends in some way instead of answering, after it has said something."""

    how: str

    def answer(self) -> object:
        print("on the way", file=sys.stderr, flush=True)
        if self.how == "typed":
            raise ScheduleError("the tile exceeds the registers")
        if self.how == "untyped":
            raise ValueError("nobody expected it")
        if self.how == "exit":
            os._exit(3)
        if self.how == "segv":
            ctypes.string_at(0)
        if self.how == "hang":
            time.sleep(600)
        if self.how == "answer":
            return lambda: None  # cannot be pickled
        raise AssertionError(self.how)


class Unpicklable:
    """Cannot be sent."""

    def answer(self) -> int:
        return 0

    def __reduce__(self) -> str:
        raise TypeError("it is tied to this process")


@dataclass(frozen=True)
class Noisy:
    """Writes to standard output in Python and by the descriptor, and answers with many bytes."""

    size: int

    def answer(self) -> bytes:
        print("a line in Python" * 10_000)
        os.write(1, b"\0\1\2 of native code" * 10_000)
        return bytes(self.size)


@dataclass(frozen=True)
class Summed:
    """Answers with the sum of the bytes of a blob, and with a blob that has each byte twice."""

    blob: Blob

    def answer(self) -> tuple[int, Blob]:
        array = self.blob.array()
        assert not array.flags.writeable
        return int(array.sum()), blobs.put(np.repeat(array, 2))


@dataclass(frozen=True)
class Modules:
    """Answers with the names of the modules of its process."""

    def answer(self) -> list[str]:
        return sorted(sys.modules)


@dataclass(frozen=True)
class Variable:
    """Answers with a variable of the environment."""

    name: str

    def answer(self) -> str | None:
        return os.environ.get(self.name)


@dataclass(frozen=True)
class Times:
    """Answers with the times at which it began and ended, its process and the parent of that."""

    seconds: float

    def answer(self) -> tuple[float, float, int, int]:
        start = time.monotonic()
        time.sleep(self.seconds)
        return start, time.monotonic(), os.getpid(), os.getppid()


@dataclass(frozen=True)
class Parental:
    """Writes its number, and that of a process that it starts, to a file of that folder, and hangs."""

    folder: Path

    def answer(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        part = self.folder / f"{os.getpid()}.part"
        part.write_text(f"{os.getpid()} {child.pid}")
        part.rename(part.with_suffix(".pids"))
        time.sleep(600)
