"""examples/serve (server.py, served.py, messages.py): the server as a process, and tritonclient's HTTP, which others wrote, as its client."""

import argparse
import asyncio
import contextlib
import copy
import http.client
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import bundle_models as models
import ml_dtypes
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput, InferResult
from tritonclient.utils import InferenceServerException

import stepwell

ROOT = Path(__file__).resolve().parents[2]
SERVE = ROOT / "examples" / "serve"
QUEUE, MAX_BODY = 8, 1 << 20
TYPES = models.HEAD + """types (float16[k] h, bfloat16[k] b, bool[k] f, int64[k] i, uint8[n, 2] u, double[k] d)
    => (float16[k] vh, bfloat16[k] vb, bool[k] vf, int64[k] vi, uint8[2, n] vu, double[k] vd) {
  vh = Add(h, h)
  vb = Add(b, b)
  vf = Not(f)
  vi = Add(i, i)
  vu = Transpose<perm = [1, 0]>(u)
  vd = Neg(d)
}"""
SLOW = models.HEAD + """slow (int64 rounds, float[8] x) => (float[8] y) {
  yes = Constant<value = bool {1}> ()
  y = Loop(rounds, yes, x) <body = step (int64 i, bool on, float[8] v) => (bool next, float[8] after) {
    next = Identity(on)
    after = Tanh(v)
  }>
}"""
NAMES = {"float16": "FP16", "float32": "FP32", "float64": "FP64", "bfloat16": "BF16"}


class Running:
    """A server in a process of its own."""

    def __init__(self, folders: Mapping[str, Path], log: Path) -> None:
        self.models = {name: stepwell.load(folder, threads=1) for name, folder in folders.items()}
        self.log = log
        options = ["--port", "0", "--streams", "1", "--queue", str(QUEUE), "--max-body", "1", "--max-held", "2", "--log-requests"]
        command = [sys.executable, str(SERVE / "server.py"), *map(str, folders.values()), *options]
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        self.port = int(self.wait(lambda: re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())).group(1))
        self.client = self.new_client()

    def wait(self, found: Callable[[], object]) -> "re.Match[str]":
        """What a function finds, within a minute."""
        for _ in range(1200):
            if result := found():
                return result
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text()[-2000:])

    def new_client(self) -> InferenceServerClient:
        return InferenceServerClient(f"127.0.0.1:{self.port}", concurrency=8, network_timeout=60.0)

    def infer(self, name: str, feed: Mapping[str, np.ndarray], *, binary: bool = True, **options: object) -> InferResult:
        """The client's result; with a client of its own, so from any thread."""
        with contextlib.closing(self.new_client()) as client:
            return client.infer(name, [sent(key, array, binary) for key, array in feed.items()], **options)

    def ask(self, method: str, path: str, body: bytes | dict = b"", **headers: str) -> tuple[int, bytes]:
        """The status and the body of a response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            text = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.request(method, path, text, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.read()

    def error(self, path: str, body: bytes | dict, **headers: str) -> tuple[int, str]:
        """The status and the message of a request for a result that fails."""
        status, answer = self.ask("POST", path, body, **headers)
        (message,) = json.loads(answer).values()
        return status, message

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric; 0 if there is none yet."""
        text = self.ask("GET", "/metrics")[1].decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return next((sample.value for sample in samples if sample.name == name and sample.labels == labels), 0.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    sources = {
        "digits": (ROOT / "examples" / "digits" / "digits.onnx", {"image": (1, 1, 8, 8)}),
        "free": (models.with_weights(models.FREE, w=models.WEIGHTS), None),
        "types": (models.with_weights(TYPES), None),
        "slow": (models.with_weights(SLOW), None),
    }
    return {
        name: stepwell.bundle(model, folder / name, shapes=shapes, prefix=name, kinds=("shared",)) for name, (model, shapes) in sources.items()
    }


@pytest.fixture(scope="module")
def server(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(folders, tmp_path_factory.mktemp("log") / "log")
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def sent(name: str, array: np.ndarray, binary: bool) -> InferInput:
    made = InferInput(name, list(array.shape), NAMES.get(array.dtype.name, array.dtype.name.upper()))
    # The client takes bfloat16 as float32.
    made.set_data_from_numpy(array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array, binary_data=binary)
    return made


def assert_same(result: InferResult, expected: Mapping[str, np.ndarray]) -> None:
    assert [output["name"] for output in result.get_response()["outputs"]] == list(expected)
    for name, array in expected.items():
        got = result.as_numpy(name)
        assert got.shape == array.shape, name
        assert got.astype(array.dtype).tobytes() == array.tobytes(), name
        assert result.get_output(name)["datatype"] == NAMES.get(array.dtype.name, array.dtype.name.upper())


def numbers(*shape: int) -> np.ndarray:
    return models.floats(*shape)


def slow(rounds: int) -> dict[str, np.ndarray]:
    return {"rounds": np.array(rounds), "x": np.linspace(-2, 2, 8, dtype=np.float32)}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The server's own module, in this process."""
    monkeypatch.syspath_prepend(str(SERVE))
    yield importlib.import_module("server")
    for name in ("server", "served", "messages"):
        del sys.modules[name]


def options(module: ModuleType, *words: object) -> argparse.Namespace:
    return module.parser().parse_args(list(map(str, words)))


def ask_here(server: Any, parts: list[bytes] | None, name: str = "free") -> tuple[int, str]:
    """The status and the message of a request to an application in this process; without parts, the body does not come."""
    sent: list[dict] = []

    async def receive() -> dict:
        await asyncio.sleep(0 if parts else 60)
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)} if parts else {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": f"/v2/models/{name}/infer", "headers": [], "query_string": b"", "client": ("::1", 1)}
    asyncio.run(server.app()(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])["error"]


def test_bundles_that_cannot_be_served(module: ModuleType, folders: dict[str, Path], tmp_path: Path) -> None:
    case = models.cell_case()
    state = stepwell.bundle(case.model, tmp_path / "cell", prefix="cell", kinds=("shared",), **case.options)
    for words, expected in (
        ([state], "expected a bundle without a state, of types of the protocol, got a state"),
        ([folders["slow"], folders["slow"]], "expected a name of its own, got a second bundle 'slow'; see stepwell bundle --prefix"),
        ([tmp_path], "manifest.json"),
    ):
        with pytest.raises(stepwell.StepwellError, match=expected):
            module.Server(options(module, *words, "--streams", 1))
    for wrong in (["--streams", "some"], ["--queue", "0"], ["--max-body", "-1"]):
        with pytest.raises(SystemExit):
            options(module, "folder", *wrong)
    choice = module.Server(options(module, folders["free"])).models["free"].streams.choice
    assert (choice.streams, choice.threads) == (len(os.sched_getaffinity(0)), 1)


def test_faults_of_the_server_are_logged_in_one_line(
    module: ModuleType, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = module.Server(options(module, folders["slow"], "--timeout", 0.05, "--streams", 1))
    assert ask_here(server, None, "slow") == (408, "expected the whole body within 0.05 s")

    def fail(*_: object) -> None:
        raise RuntimeError("one\nFORGED \x1b[2J")

    monkeypatch.setattr(module, "read_request", fail)
    assert ask_here(server, [b"{", b"}"], "slow") == (500, "slow: an error of the server; its log has more")
    (line,) = caplog.messages
    assert line.startswith("slow: 'Traceback (most recent call last)")
    assert "one\\nFORGED \\x1b[2J" in line
    assert server.held == 0


def test_health_and_metadata(server: Running) -> None:
    client = server.client
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert not client.is_model_ready("digits", "2")
    assert not client.is_model_ready("other")
    about = client.get_server_metadata()
    assert (about["name"], about["extensions"]) == ("stepwell", ["binary_tensor_data"])
    for version in ("", "1"):
        assert client.get_model_metadata("free", version) == {
            "name": "free", "versions": ["1"], "platform": "stepwell_bundle",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}, {"name": "z", "datatype": "FP32", "shape": [-1, -1]}],
            "outputs": [{"name": name, "datatype": "FP32", "shape": [-1, size]} for name, size in (("y", 8), ("t", -1), ("both", 8))],
        }  # fmt: skip
    assert json.loads(server.ask("GET", "/v2/health/live")[1]) == {"live": True}
    assert json.loads(server.ask("GET", "/v2/models/free/ready")[1]) == {"name": "free", "ready": True}


@pytest.mark.parametrize("binary", [True, False])
def test_results_are_those_of_the_bundle(server: Running, binary: bool) -> None:
    digits, free = server.models["digits"], server.models["free"]
    image = {"image": numbers(1, 1, 8, 8)}
    outputs = [InferRequestedOutput(info.name, binary_data=binary) for info in digits.outputs]
    result = server.infer("digits", image, binary=binary, outputs=outputs, request_id='7 "é"', model_version="1")
    assert_same(result, digits.run(image))
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ('7 "é"', "digits", "1")
    for rows, columns in ((3, 2), (5, 0), (0, 4), (700, 1)):  # the last is converted by a thread
        feed = {"x": numbers(rows, 8), "z": numbers(rows, columns)}
        outputs = [InferRequestedOutput(name, binary_data=binary) for name in ("both", "t")]
        expected = free.run(feed)
        assert_same(server.infer("free", feed, binary=binary, outputs=outputs), {name: expected[name] for name in ("both", "t")})


def test_every_type(server: Running) -> None:
    feed: dict[str, np.ndarray] = {
        "h": numbers(4).astype(np.float16), "b": numbers(4).astype(ml_dtypes.bfloat16), "f": np.array([True, False, False, True]),
        "i": np.array([-(1 << 62), (1 << 62) - 1, 0, 3]), "u": np.arange(250, 256, dtype=np.uint8).reshape(3, 2),
        "d": np.array([-np.nan, np.inf, 0.1, 5e-324]),
    }  # fmt: skip
    expected = server.models["types"].run(feed)
    assert_same(server.infer("types", feed), expected)
    given = [sent(name, array, binary=name == "b") for name, array in feed.items()]
    outputs = [InferRequestedOutput(name, binary_data=name == "vb") for name in expected]
    result = server.client.infer("types", given, outputs=outputs)
    assert_same(result, expected)
    assert ["data" in output for output in result.get_response()["outputs"]] == [name != "vb" for name in expected]


def test_json_as_others_write_it(server: Running) -> None:
    x = [[1, 2.5, 0, -1, 0, 0, 0, 1]] * 2
    body = {"inputs": [tensor("x", [2, 8], x), tensor("z", [2, 1], [3, 4])], "more": {"of": ["others"]}}
    body |= {"parameters": {"binary_data_output": True, "priority": 1}, "outputs": [{"name": "t", "parameters": {"binary_data": False}}]}
    status, answer = server.ask("POST", "/v2/models/free/infer", body)
    t = {"name": "t", "datatype": "FP32", "shape": [1, 2], "data": [3.0, 4.0]}
    assert (status, json.loads(answer)) == (200, {"model_name": "free", "model_version": "1", "outputs": [t]})


def tensor(name: str, shape: list, data: object = None, datatype: str = "FP32", **parameters: object) -> dict:
    return {"name": name, "shape": shape, "datatype": datatype} | ({} if data is None else {"data": data}) | {"parameters": parameters}


def test_errors(server: Running) -> None:
    z = tensor("z", [1, 1], [0])
    row = [0.0] * 8
    cases: list[tuple[bytes | dict, str]] = [
        (b"{", "the body: Invalid JSON: "),
        (b'{"inputs": ' + b"[" * 100_000, "the body: Invalid JSON: recursion limit exceeded"),
        (b'{"inputs": [{"name": "x", "shape": [' + b"9" * 5000 + b"]}]}", ""),
        ({}, "inputs: Field required"),
        ({"inputs": [z]}, "inputs: expected x, z, got no x"),
        ({"inputs": [z, z]}, "inputs: expected x, z, each once, got 'z' twice"),
        ({"inputs": [tensor("q\r\nq" + 99 * "q", [1], [0])]}, r"inputs: expected x, z, each once, got 'q\r\nqqqqqqq...qqqqqqqqqqqqq'"),
        ({"inputs": [tensor("x", [1, 7], row), z]}, "input 'x': expected FP32 [-1, 8], got 'FP32' [1, 7]"),
        ({"inputs": [tensor("x", [1, 8], row, "FP64"), z]}, "input 'x': expected FP32 [-1, 8], got 'FP64' [1, 8]"),
        ({"inputs": [tensor("x", [-1, 8], row), z]}, "inputs.0.shape.0: Input should be greater than or equal to 0"),
        ({"inputs": [tensor("x", [1.0, 8], row), z]}, "inputs.0.shape.0: Input should be a valid integer"),
        ({"inputs": [tensor("x", [1 << 62, 8], row), z]}, f"input 'x': expected {1 << 65} elements, got 8"),
        ({"inputs": [tensor("x", [1, 8], row[1:]), z]}, "input 'x': expected 8 elements, got 7"),
        ({"inputs": [tensor("x", [2, 8], [row, row[1:]]), z]}, "input 'x': expected lists nested as [2, 8], or one of all elements"),
        ({"inputs": [tensor("x", [2, 8], [row, 1]), z]}, "input 'x': expected lists nested as [2, 8], or one of all elements"),
        ({"inputs": [tensor("x", [1, 8], [["1", True, None] * 2 + [0, 0]]), z]}, "input 'x': expected FP32 in JSON, got NoneType, bool, str"),
        ({"inputs": [tensor("x", [1, 8], [10**4000, *row[1:]]), z]}, "input 'x': int too large to convert to float"),
        ({"inputs": [tensor("x", [1, 8]), z]}, "input 'x': expected either data or binary_data_size"),
        ({"inputs": [tensor("x", [1, 8], row, binary_data_size=32), z]}, "input 'x': expected either data or binary_data_size"),
        ({"inputs": [tensor("x", [1, 8], binary_data_size=32), z]}, "input 'x': expected 32 bytes, got a binary_data_size of 32 and 0 bytes"),
        ({"inputs": [tensor("x", [1 << 60, 8], binary_data_size=32), z]}, f"input 'x': expected {1 << 65} bytes, got a binary_data_size of 32"),
        ({"inputs": [tensor("x", [1, 8], row, shared_memory_region="r"), z]}, "inputs.0.parameters.shared_memory_region: Input should be null"),
        ({"inputs": [tensor("x", [1, 8], row), z], "outputs": [{"name": "w"}]}, "outputs: expected some of y, t, both, each once, got 'w'"),
        ({"inputs": [tensor("x", [1, 8], row), z], "parameters": {"timeout": "1"}}, "parameters.timeout: Input should be a valid integer"),
        ({"inputs": [tensor("x", [1, 8], row), tensor("z", [2, 1], [0, 0])]}, "SW003 input 'z': expected n = 1, as in another input, got 2"),
    ]
    for body, expected in cases:
        status, message = server.error("/v2/models/free/infer", body)
        assert (status, message[: len(expected)]) == (400, expected)
    good: dict = {"inputs": [tensor("x", [1, 8], row), z]}
    for length in ("-1", "1e3", "9" * 5000, "1000"):
        status, message = server.error("/v2/models/free/infer", good, Inference_Header_Content_Length=length)
        assert status == 400
        assert message.startswith(f"Inference-Header-Content-Length: expected at most the {len(json.dumps(good))} bytes of the body, got '")
    text = json.dumps(good).encode()
    extra = server.error("/v2/models/free/infer", text + b"1234", Inference_Header_Content_Length=str(len(text)))
    assert extra == (400, f"expected {len(text)} bytes, by the length of the JSON and each binary_data_size, got {len(text) + 4}")
    for size in (28, 36):
        head = json.dumps({"inputs": [tensor("x", [1, 8], binary_data_size=size), z]}).encode()
        message = f"input 'x': expected 32 bytes, got a binary_data_size of {size} and {size} bytes"
        assert server.error("/v2/models/free/infer", head + bytes(size), Inference_Header_Content_Length=str(len(head))) == (400, message)
    assert server.error("/v2/models/free/infer", text, Content_Encoding="gzip") == (415, "Content-Encoding: expected none, got 'gzip'")
    assert server.error("/v2/models/other/infer", good)[0] == 404
    assert server.error("/v2/models/free/versions/2/infer", good)[0] == 404
    assert server.ask("GET", "/v2/models/free/infer") == (405, b'{"error":"Method Not Allowed"}')
    with pytest.raises(InferenceServerException, match=r"\[400\] input 'x': expected FP32 \[-1, 8\], got 'FP32' \[1, 9\]"):
        server.infer("free", {"x": numbers(1, 9), "z": numbers(1, 1)})
    feed = {name: np.ones(1, kind) for name, kind in (("h", np.float16), ("b", ml_dtypes.bfloat16), ("f", bool), ("i", np.int64), ("d", float))}
    feed["u"] = np.ones((1, 2), np.uint8)
    with pytest.raises(InferenceServerException, match="output 'vb': expected binary_data, since JSON has no BF16"):
        server.infer("types", feed, outputs=[InferRequestedOutput("vb", binary_data=False)])
    failures = server.metric("stepwell_failures_total", model="free", reason="protocol")
    assert failures == len(cases) - 1 + 4 + 1 + 2 + 1
    assert server.metric("stepwell_failures_total", model="free", reason="input") == 1


ODD = (
    None, True, -1, 0, 1, 2, 1 << 63, 1 << 70, 1e400, -0.0, "", "x", "\ud800", "FP32", "BF16", [], {}, [None], [1] * 17, [1 << 62, 8],
    [[1, 2], [3, 4]],
)  # fmt: skip


def places(value: object) -> Iterator[tuple[Any, Any]]:
    """Every list or object in a value, with each of its indices or keys."""
    for key in list(value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
        yield value, key
        yield from places(value[key])  # type: ignore[index]


def test_any_body_is_a_request_or_one_error(module: ModuleType, server: Running) -> None:
    messages, random, refusals = sys.modules["messages"], Random(50), []
    good = {
        "id": "1", "inputs": [tensor("x", [2, 8], binary_data_size=64), tensor("z", [2, 2], [[1, 2], [3, 4]])],
        "outputs": [{"name": "t", "parameters": {"binary_data": False}}], "parameters": {"timeout": 5, "binary_data_output": True},
    }  # fmt: skip
    for _ in range(3000):
        message = copy.deepcopy(good)
        for _ in range(random.choice((0, 1, 1, 2))):
            where, key = random.choice(list(places(message)))
            if random.random() < 0.3:
                del where[key]
            else:
                where[key] = copy.deepcopy(random.choice(ODD))
        head = json.dumps(message).encode()
        body, length = bytearray(head + bytes(64)), str(len(head))
        if random.random() < 0.1:
            body[random.randrange(len(head))] = random.randrange(256)
        if random.random() < 0.1:
            length = random.choice(("", "0", "-1", "+5", "1_0", "\u0663", "99999"))
        if random.random() < 0.1:
            del body[random.randrange(len(body)) :]
        try:
            messages.read_request(body, length, server.models["free"], 380)
        except messages.ProtocolError as error:
            refusals.append(str(error))
    assert any(text.startswith("expected at most 380 bytes of JSON, got ") for text in refusals)
    assert 1000 < len(refusals) < 2700
    assert [text for text in refusals if not text.isprintable() or len(text) > 300] == []


def test_bodies_that_are_too_large_are_not_read(server: Running) -> None:
    message = f"expected a body of at most 1 MiB, got {MAX_BODY + 1} bytes or more"
    assert server.error("/v2/models/free/infer", bytes(MAX_BODY + 1)) == (413, message)
    assert status_line(start(server, "free", 1 << 50)).startswith(b"HTTP/1.1 413 ")  # nothing of it has come
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        parts = (bytes(1 << 16) for _ in range(17))
        connection.request("POST", "/v2/models/free/infer", parts, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        assert connection.getresponse().status == 413
    # Three bodies of 0.9 MiB are more than the 2 MiB for all: the third is refused, and the others go on.
    sockets = [start(server, "free", 950_000) for _ in range(3)]
    for number, one in enumerate(sockets):
        one.sendall(bytes(940_000))
        if number < 2:
            time.sleep(0.2)
    assert status_line(sockets[2]).startswith(b"HTTP/1.1 503 ")
    for one in sockets[:2]:
        one.sendall(bytes(10_000))
        assert status_line(one).startswith(b"HTTP/1.1 400 ")
    assert server.metric("stepwell_failures_total", model="free", reason="too large") == 3
    assert server.metric("stepwell_failures_total", model="free", reason="memory") == 1


def start(server: Running, model: str, size: int) -> socket.socket:
    """A connection with the head of a request for a result."""
    one = socket.create_connection(("127.0.0.1", server.port), 60)
    one.sendall(f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode())
    return one


def status_line(one: socket.socket) -> bytes:
    """The first line of a response, at which the connection is closed."""
    with one, one.makefile("rb") as file:
        return file.readline()


def test_clients_at_once(server: Running) -> None:
    before = server.metric("stepwell_requests_total", model="digits")
    feeds = [{"image": numbers(1, 1, 8, 8)} for _ in range(64)]
    expected = [server.models["digits"].run(feed) for feed in feeds]

    def ask_every_eighth(first: int) -> None:
        for number in range(first, 64, 8):
            assert_same(server.infer("digits", feeds[number]), expected[number])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask_every_eighth, range(8)))
    assert server.metric("stepwell_requests_total", model="digits") == before + 64
    assert server.metric("stepwell_request_seconds_count", model="digits") >= 64
    assert server.metric("stepwell_queued", model="digits") == server.metric("stepwell_running", model="digits") == 0


@contextlib.contextmanager
def busy(server: Running, rounds: int) -> Iterator[Future[InferResult]]:
    """The result of a request of some 20 ns a round, from when it runs."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(server.infer, "slow", slow(rounds))
        server.wait(lambda: server.metric("stepwell_running", model="slow") == 1)
        yield result


def test_a_full_queue_deadlines_and_clients_that_go(server: Running) -> None:
    quick = server.models["slow"].run(slow(3))
    with busy(server, 100_000_000) as long, ThreadPoolExecutor(QUEUE) as pool:
        with pytest.raises(InferenceServerException, match=r"\[504\]"):
            server.infer("slow", slow(3), timeout=50_000)
        body = json.dumps({"inputs": [tensor("rounds", [], [3], "INT64"), tensor("x", [8], [0] * 8)]}).encode()
        leaving = start(server, "slow", len(body))
        leaving.sendall(body)
        server.wait(lambda: server.metric("stepwell_queued", model="slow") == 1)
        leaving.close()
        server.wait(lambda: server.metric("stepwell_failures_total", model="slow", reason="disconnected") == 1)
        waiting = [pool.submit(server.infer, "slow", slow(3)) for _ in range(QUEUE)]
        server.wait(lambda: server.metric("stepwell_queued", model="slow") == QUEUE)
        with pytest.raises(InferenceServerException, match=r"\[503\]"):
            server.infer("slow", slow(3))
        assert server.client.is_server_ready()
        assert not long.done()
        for one in waiting:
            assert_same(one.result(), quick)
    with pytest.raises(InferenceServerException, match=r"\[504\]"):
        server.infer("slow", slow(1_000_000_000), timeout=200_000)
    assert_same(server.infer("slow", slow(3), timeout=8_000_000), quick)  # the run before has been ended
    for reason, count in (("deadline", 2), ("queue full", 1), ("disconnected", 1)):
        assert server.metric("stepwell_failures_total", model="slow", reason=reason) == count, reason


def test_logs_have_no_text_of_clients_as_it_came(server: Running) -> None:
    server.ask("GET", "/v2/models/a%0d%0aFORGED%1b%5b2J/ready")
    text = server.log.read_text()
    assert "FORGED" in text
    assert not re.search(r"^FORGED|\x1b\[2J", text, flags=re.MULTILINE)
    assert "Traceback" not in text


def test_sigterm_drains(server: Running) -> None:
    rounds = 30_000_000
    with busy(server, rounds) as long:
        server.process.send_signal(signal.SIGTERM)
        assert_same(long.result(), server.models["slow"].run(slow(rounds)))
    assert server.process.wait(30) == 0
    assert "Traceback" not in server.log.read_text()
