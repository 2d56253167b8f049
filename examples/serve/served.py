"""A model that is served: a bundle, its streams and its measurements."""

import argparse
import asyncio
import logging
import os

import numpy as np
from messages import DATATYPES, InferenceRequest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.requests import ClientDisconnect, Request

import stepwell

LOG = logging.getLogger("stepwell.serve")
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""The bounds of the histogram."""


class Metrics:
    """The measurements of all models."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter("stepwell_requests", "Inference requests.", ["model"], registry=self.registry)
        self.failures = Counter("stepwell_failures", "Inference requests without a result.", ["model", "reason"], registry=self.registry)
        self.seconds = Histogram("stepwell_request_seconds", "Time to a result.", ["model"], registry=self.registry, buckets=SECONDS)
        self.queued = Gauge("stepwell_queued", "Requests that wait for a stream.", ["model"], registry=self.registry)
        self.running = Gauge("stepwell_running", "Requests that run.", ["model"], registry=self.registry)


class Served:
    """A bundle and its streams."""

    def __init__(self, folder: str, options: argparse.Namespace, metrics: Metrics) -> None:
        self.model = stepwell.load(folder)
        self.name = self.model.name
        odd = [info for info in (*self.model.inputs, *self.model.outputs) if info.dtype.name not in DATATYPES]
        if odd or self.model.keeps_state:
            raise stepwell.UnsupportedError(f"{folder}: expected a bundle without a state, of types of the protocol, got {odd or 'a state'}")
        self.model.verify()
        if options.streams == "auto" and all(info.is_static for info in self.model.inputs):
            self.streams = self.model.streams("auto", callers=options.callers, queue=options.queue)
        else:  # free sizes cannot be measured without an example
            count = len(os.sched_getaffinity(0)) if options.streams == "auto" else options.streams
            self.streams = self.model.streams(count, threads=options.threads, queue=options.queue)
        LOG.info("%s: %s", self.name, self.streams.choice.why)
        metrics.queued.labels(self.name).set_function(lambda: self.streams.statistics.queued)
        metrics.running.labels(self.name).set_function(lambda: self.streams.statistics.running)

    async def run(self, asked: InferenceRequest, request: Request, seconds: float) -> dict[str, np.ndarray]:
        """The outputs by name. Raises StepwellError, also if that takes longer, and ClientDisconnect."""
        late = stepwell.DeadlineError(f"expected a result within {max(seconds, 0):.3g} s")
        if seconds <= 0:
            raise late
        caller = request.client.host if request.client else ""
        running = asyncio.wrap_future(self.streams.submit(asked.inputs, deadline=seconds, caller=caller, block=False))
        gone = asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait((running, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            raise ClientDisconnect if gone.done() else late
        finally:
            running.cancel()
            gone.cancel()


async def disconnected(request: Request) -> None:
    """Wait until the client has gone, after its whole body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
