"""An HTTP server for bundles, by the Open Inference Protocol (KServe v2): python examples/serve/server.py DIR [DIR ...]

Clients of the protocol, such as tritonclient's, ask it for the outputs of a model; Prometheus asks it for `/metrics`. README.md has the details.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version

import uvicorn
from messages import ProtocolError, metadata, read_request, write_response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from served import Metrics, Served
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import stepwell

LOG = logging.getLogger("stepwell.serve")
MODEL_VERSION = "1"  # bundles have no versions of their own


class Refused(Exception):
    """A request that is not answered, with a status of HTTP and a reason for the metrics."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.status, self.reason, self.text = status, reason, text

    @classmethod
    def by(cls, error: Exception, name: str) -> "Refused":
        """The refusal for an error in serving the model of that name."""
        for kind, status, reason in (
            (ProtocolError, 400, "protocol"),
            (stepwell.QueueFullError, 503, "queue full"),
            (stepwell.DeadlineError, 504, "deadline"),
            ((stepwell.InputError, stepwell.IndexRangeError, stepwell.LimitError), 400, "input"),
            (stepwell.ResourceError, 503, "resources"),
            (ClientDisconnect, 499, "disconnected"),
        ):
            if isinstance(error, kind):
                return cls(status, reason, str(error))
        LOG.error("%s: %s", name, ascii("".join(traceback.format_exception(error))))
        return cls(500, "internal", f"{name}: an error of the server; its log has more")


class Server:
    """The models and the handlers of the protocol."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.metrics = Metrics()
        self.models: dict[str, Served] = {}
        self.held = 0
        """The bytes of all bodies in memory."""
        self.converters = ThreadPoolExecutor(2, "convert")
        """They read and write tensors beside the event loop. Few, because JSON takes up to twenty times its size while it is read."""
        for folder in options.bundles:
            served = Served(folder, options, self.metrics)
            if self.models.setdefault(served.name, served) is not served:
                raise stepwell.ModelError(f"{folder}: expected a name of its own, got a second bundle '{served.name}'; see stepwell bundle --prefix")

    def app(self) -> Starlette:
        """The application for a server of ASGI."""
        model, one = "/v2/models/{name}", "/versions/{version}"
        return Starlette(
            routes=[
                Route("/v2", self.about),
                *(Route(f"/v2/health/{state}", lambda request, state=state: JSONResponse({state: True})) for state in ("live", "ready")),
                *(Route(path, self.describe) for path in (model, model + one)),
                *(Route(path + "/ready", self.ready) for path in (model, model + one)),
                *(Route(path + "/infer", self.infer, methods=["POST"]) for path in (model, model + one)),
                Route("/metrics", lambda request: Response(generate_latest(self.metrics.registry), media_type=CONTENT_TYPE_LATEST)),
            ],
            exception_handlers={HTTPException: refused},
            lifespan=self.life,
        )

    @contextlib.asynccontextmanager
    async def life(self, app: Starlette) -> AsyncIterator[None]:
        """Let the streams finish after the last request."""
        yield
        for served in self.models.values():
            await asyncio.to_thread(served.streams.close)
        self.converters.shutdown()

    def find(self, request: Request) -> Served:
        """The model of a path. Raises HTTPException."""
        name, wanted = request.path_params["name"], request.path_params.get("version", MODEL_VERSION)
        if name not in self.models or wanted != MODEL_VERSION:
            raise HTTPException(404, f"expected version {MODEL_VERSION} of {', '.join(self.models)}, got version {wanted!r:.40} of {name!r:.80}")
        return self.models[name]

    async def about(self, request: Request) -> Response:
        """`GET v2`."""
        return JSONResponse({"name": "stepwell", "version": version("stepwell"), "extensions": ["binary_tensor_data"]})

    async def describe(self, request: Request) -> Response:
        """`GET v2/models/NAME`."""
        served = self.find(request)
        inputs, outputs = ([metadata(info) for info in side] for side in (served.model.inputs, served.model.outputs))
        return JSONResponse({"name": served.name, "versions": [MODEL_VERSION], "platform": "stepwell_bundle", "inputs": inputs, "outputs": outputs})

    async def ready(self, request: Request) -> Response:
        """`GET v2/models/NAME/ready`."""
        return JSONResponse({"name": self.find(request).name, "ready": True})

    async def infer(self, request: Request) -> Response:
        """`POST v2/models/NAME/infer`."""
        served, began = self.find(request), time.monotonic()
        self.metrics.requests.labels(served.name).inc()
        body = bytearray()
        try:
            response = await self.answer(served, request, body, began)
        except Exception as error:
            refusal = error if isinstance(error, Refused) else Refused.by(error, served.name)
            self.metrics.failures.labels(served.name, refusal.reason).inc()
            return JSONResponse({"error": refusal.text}, refusal.status, {"Retry-After": "1"} if refusal.status == 503 else None)
        finally:
            self.held -= len(body)
        self.metrics.seconds.labels(served.name).observe(time.monotonic() - began)
        return response

    async def answer(self, served: Served, request: Request, body: bytearray, began: float) -> Response:
        """Read a request into `body`, run the model, and write the response. Raises Refused and what its parts raise."""
        try:
            async with asyncio.timeout(self.options.timeout):
                await self.read(request, body)
        except TimeoutError:
            raise Refused(408, "slow", f"expected the whole body within {self.options.timeout:g} s") from None
        if encoding := request.headers.get("content-encoding"):
            raise Refused(415, "encoding", f"Content-Encoding: expected none, got {encoding!r:.40}")
        convert = partial(asyncio.get_running_loop().run_in_executor, self.converters)
        header_length = request.headers.get("inference-header-content-length")
        asked = await convert(read_request, body, header_length, served.model, self.options.max_json << 20)
        seconds = min(asked.timeout or self.options.timeout, self.options.timeout) - (time.monotonic() - began)
        results = await served.run(asked, request, seconds)
        written, json_bytes = await convert(write_response, served.name, MODEL_VERSION, asked, results)
        if json_bytes is None:
            return Response(written, media_type="application/json")
        return Response(written, media_type="application/octet-stream", headers={"Inference-Header-Content-Length": str(json_bytes)})

    async def read(self, request: Request, body: bytearray) -> None:
        """Append the body of a request to `body`. Raises Refused if it is too large, or all bodies together are."""
        most, announced = self.options.max_body << 20, int(request.headers.get("content-length", 0))
        if announced <= most:
            async for chunk in request.stream():
                body += chunk
                self.held += len(chunk)
                if self.held > self.options.max_held << 20:
                    raise Refused(503, "memory", f"expected bodies of at most {self.options.max_held} MiB together")
                if len(body) > most:
                    break
        if max(announced, len(body)) > most:
            raise Refused(413, "too large", f"expected a body of at most {self.options.max_body} MiB, got {max(announced, len(body))} bytes or more")


async def refused(request: Request, error: Exception) -> Response:
    """The response for a path or method that does not exist."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def positive(text: str) -> int:
    """A number of an option. Raises ValueError."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def streams(text: str) -> int | str:
    """The value of `--streams`. Raises ValueError."""
    return text if text == "auto" else positive(text)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    made.add_argument("bundles", nargs="+", metavar="DIR", help="a bundle; its name is the model's")
    made.add_argument("--host", default="127.0.0.1", help="the address to listen at (default %(default)s: this machine alone)")
    made.add_argument("--port", type=int, default=8000, help="default %(default)s; 0 takes a free one")
    made.add_argument("--streams", type=streams, default="auto", metavar="N", help="how many requests of a model run at once (default: measured)")
    made.add_argument("--threads", type=positive, help="threads of each stream, unless they are measured (default: its share of the cores)")
    made.add_argument("--callers", type=positive, default=8, help="how many clients --streams auto is measured with (default %(default)s)")
    made.add_argument("--queue", type=positive, default=64, help="how many requests wait for a model; more get status 503 (default %(default)s)")
    made.add_argument("--timeout", type=float, default=30, metavar="SECONDS", help="the most that a request takes (default %(default)s)")
    made.add_argument("--max-body", type=positive, default=64, metavar="MIB", help="the largest body of a request (default %(default)s)")
    made.add_argument("--max-json", type=positive, default=8, metavar="MIB", help="the most of it that is JSON (default %(default)s)")
    made.add_argument("--max-held", type=positive, default=512, metavar="MIB", help="the most that bodies take together (default %(default)s)")
    made.add_argument("--grace", type=positive, default=30, metavar="SECONDS", help="how long requests may go on after SIGTERM (default %(default)s)")
    made.add_argument("--log-requests", action="store_true", help="a line in the log for each request")
    return made


def main() -> None:
    """Serve until SIGTERM or SIGINT; then finish what has come, and end with status 0."""
    options = parser().parse_args()
    logging.basicConfig(level=logging.INFO)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn has its own handler meanwhile, and raises the signal again at its end
    try:
        app = Server(options).app()
    except stepwell.StepwellError as error:
        sys.exit(str(error))
    uvicorn.run(
        app, host=options.host, port=options.port, access_log=options.log_requests, server_header=False, timeout_graceful_shutdown=options.grace
    )


if __name__ == "__main__":
    main()
