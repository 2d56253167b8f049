"""Streams: many callers of one model, each request answered exactly once, whatever else happens."""

import asyncio
import gc
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import asdict

import bundle_models as models
import numpy as np
import pytest
from together import together

import stepwell
from stepwell.dialects.support.errors import DeadlineError, IndexRangeError, InputError, QueueFullError, ResourceError
from stepwell.runtime.serving.requests import Queue, Request, Results, Runner
from stepwell.runtime.serving.streams import Choice, Streams

CHOICE = Choice(1, 1, (), "")


class Gate(Runner):
    """A runner whose runs wait until they are let through, and record whose they were."""

    def __init__(self) -> None:
        self.begun, self.goes = threading.Semaphore(0), threading.Semaphore(0)
        self.order: list[str] = []
        self.closed = 0
        self.stopped = threading.Event()

    def enter(self) -> None:
        pass

    def run(self, inputs: object, out: object) -> Results:
        self.order.append(next(iter(inputs)))  # type: ignore[call-overload]
        self.begun.release()
        self.goes.acquire()
        return {}

    def stop(self) -> None:
        self.stopped.set()

    def go_on(self) -> None:
        pass

    def reset(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1

    workspace_bytes = 0
