"""Python programs of ours as processes that need no second for imports: forks of one process that has imported the compiler.

`command_server.started(arguments)` is for whoever would start `[sys.executable, ...]`, by `subprocess.run` or `Popen`:

    subprocess.run(started([sys.executable, "-m", "stepwell.cli.main", "run", "net.onnx"]), env=environment, capture_output=True, text=True)

What it returns starts a small program, fork_client.py, which hands its arguments, directory, environment, umask and open files to the server
of this test process, waits, and ends as the fork ended: with its exit status, or by the signal that ended it. If that program is killed, so
is its fork. The server serves `-m MODULE` for the commands of the package, `-c CODE` and `FILE.py`. Their modules of the compiler are those that
the server imported, in the state in which an import leaves them, without plugins; they start no compiler processes. Everything else is started
as it would have been: other modules and options of Python, and programs with another `PYTHON...`, `LD_...` or locale in the environment,
which count when Python starts. So are all programs where there is no server: on other systems than Linux, and where the compiler cannot be
imported.

Not for tests that are about the start of a process: what it imports, what a signal does meanwhile, another checkout, compiler processes.
`commands_folder()` makes a folder to put first on PATH: the commands of the package for a shell.
"""

import atexit
import ctypes
import gc
import marshal
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

CLIENT = Path(__file__).with_name("fork_client.py")
AT_START = ("PYTHON", "LD_", "LC_", "LANG")
"""What Python looks at when it starts, by how the names of the variables begin."""

_PR_SET_PDEATHSIG = 1
_FLUSH_FAILED = 120  # the exit status of Python where what it printed could not be written
_HIGH = 512  # file descriptors that are on their way to their numbers lie above this

Main = Callable[[], object]


def started(arguments: Sequence[object]) -> list[str]:
    """What to start for a program of Python: `arguments` begin with `sys.executable`."""
    given = list(map(str, arguments))
    address = _server(os.getpid())
    return [sys.executable, "-I", "-S", str(CLIENT), address, *given] if address else given


def commands_folder(folder: Path) -> Path:
    """A new folder in `folder` with the programs `stepwell` and `stepwell-opt`."""
    made = folder / "bin"
    made.mkdir()
    for name, module in (("stepwell", "stepwell.cli.main"), ("stepwell-opt", "stepwell.cli.opt")):
        words = " ".join(f"'{word}'" for word in started([sys.executable, "-m", module]))
        (made / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (made / name).chmod(0o755)
    return made


@cache
def _server(pid: int) -> str:
    """Start the server of this process; its address, or nothing if there can be none."""
    if sys.platform != "linux":
        return ""
    address = f"stepwell-tests-{pid}-{os.urandom(4).hex()}"
    ready, theirs = os.pipe()
    process = subprocess.Popen([sys.executable, __file__, address, str(theirs)], pass_fds=[theirs], stdin=subprocess.DEVNULL)
    os.close(theirs)
    atexit.register(process.kill)
    with open(ready, "rb") as said:
        return address if said.read() == b"ready" else ""


# --- in the server


def serve(address: str, ready: int) -> None:
    """Fork for each client that comes."""
    end_with_parent(signal.SIGKILL)
    sys.path.remove(str(Path(__file__).resolve().parent))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"\0{address}")
    listening.listen(64)
    if not prepare():
        return
    import_module("stepwell.backends.llvm_cpu.pool").compile_in_process()
    os.write(ready, b"ready")
    os.close(ready)
    while True:
        client, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _attend(client)
        client.close()
        while _reap():  # so that what they spent counts for this process, which is what the meter of costs looks at
            pass


def _reap() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _attend(client: socket.socket) -> NoReturn:
    """Run one program for a client, in a fork, and tell how it ended; end the fork if the client ends."""
    try:
        end_with_parent(signal.SIGKILL)
        data, files, _, _ = socket.recv_fds(client, 8, _HIGH - 16)
        length = int.from_bytes(data, "little")
        with client.makefile("rb") as stream:
            arguments, folder, umask, numbers, variables = marshal.loads(stream.read(length))
        environment = {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()}
        run = _program([os.fsdecode(argument) for argument in arguments], environment)
        client.send(b"no" if run is None else b"yes")
        if run is None:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            end_with_parent(signal.SIGKILL)
            os.chdir(folder)
            os.umask(umask)
            _take(dict(zip(numbers, files, strict=True)))
            os.environ.clear()
            os.environ.update(environment)
            end(run)
        for file in files:
            os.close(file)  # a pipe ends when the fork closes it
        watched = select.poll()
        process = os.pidfd_open(pid)
        for descriptor in (process, client.fileno()):
            watched.register(descriptor, select.POLLIN)
        if client.fileno() in dict(watched.poll()):
            os.kill(pid, signal.SIGKILL)
        client.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    finally:
        os._exit(0)


def _program(arguments: list[str], environment: dict[str, str]) -> Main | None:
    """What runs a program; None if it has to be started by itself."""

    def at_start(variables: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if value and name.startswith(AT_START)}

    if at_start(environment) != at_start(dict(os.environ)):
        return None
    match arguments:
        case [sys.executable, "-m", name, *rest] if name in commands():
            sys.argv[:], first = [str(sys.modules[name].__file__), *rest], os.getcwd
            main: Main = commands()[name]
        case [sys.executable, "-c", text, *rest]:
            sys.argv[:], first = ["-c", *rest], str
            main = lambda: _execute(text, "<string>")  # noqa: E731
        case [sys.executable, file, *rest] if file.endswith(".py"):
            sys.argv[:], first = [file, *rest], lambda: str(Path(file).resolve().parent)
            main = lambda: _execute(Path(file).read_bytes(), file)  # noqa: E731
        case _:
            return None

    def run() -> object:
        sys.path.insert(0, first())
        return main()

    return run


def _execute(text: str | bytes, file: str) -> None:
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __spec__=None)
    if file != "<string>":
        module.__file__ = file
    sys.modules["__main__"] = module
    exec(compile(text, file, "exec"), module.__dict__)


def _take(files: dict[int, int]) -> None:
    """Give open files the numbers by which the client knows them, and close all others."""
    import fcntl

    moved = {number: fcntl.fcntl(file, fcntl.F_DUPFD, _HIGH) for number, file in files.items()}
    for number in range(_HIGH):
        if number in moved:
            os.dup2(moved[number], number)
    limit, kept = os.sysconf("SC_OPEN_MAX"), sorted(files)
    for low, high in zip([-1, *kept], [*kept, limit], strict=True):
        if low + 1 < high:
            os.closerange(low + 1, high)


# --- what forks of any kind need: those of the server, and those of lit's workers


@cache
def commands() -> dict[str, Main]:
    """The `main` of the modules that are commands of the package."""
    from stepwell.cli import main, opt

    return {"stepwell.cli.opt": opt.main, "stepwell.cli.main": main.main}


def prepare(*modules: str) -> bool:
    """Import all that commands import, and other modules, and make this process fit to be forked; whether that is possible."""
    threads = {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    try:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's library starts its threads when it is imported, and forks have none of them
        commands()
        for module in ("llvmlite.binding", "torch_mlir.dialects.builtin", "stepwell.cli.optimize", *modules):
            import_module(module)
        import_module("stepwell.passes.framework.registry").passes()  # imports them
        import_module("stepwell.dialects.core.mlir").make_context()  # kept for the forks: a file of several pieces needs one for each
    except Exception:  # a broken compiler is to fail the tests, each with its message: the commands are run as programs
        return False
    finally:
        for name, value in threads.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    if multiprocessing.parent_process() is not None:
        end_with_parent(signal.SIGTERM)  # a killed lit leaves no worker
    gc.collect()
    gc.freeze()  # else the collector of each fork would copy the pages of all objects there are
    return True


def end(main: Main) -> NoReturn:
    """Run the rest of a fork as Python runs a program, and end it. Called with its directory, environment, open files and umask in place."""
    status: object = 1
    try:
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)  # as Python starts; Popen has set the default
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.enable()  # Popen switches it off
        sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(3))
        status = main()
    except SystemExit as raised:
        status = raised.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        os._exit(_closed(status))


def _stream(number: int) -> Any:
    """A standard stream as Python opens it; None if it is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    if number == 0:
        return open(0, closefd=False)
    return open(number, "w", **({"buffering": 1, "errors": "backslashreplace"} if number == 2 else {}), closefd=False)  # type: ignore[call-overload]


def _closed(status: object) -> int:
    """Do what Python does at its end; the number for `status`."""
    number = status if isinstance(status, int) else int(status is not None)
    try:
        if not isinstance(status, int | None) and sys.stderr is not None:
            print(status, file=sys.stderr)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        number = _FLUSH_FAILED
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        number = _FLUSH_FAILED
    return number & 0xFF


def end_with_parent(number: signal.Signals) -> None:
    """Have Linux send this process a signal when its parent ends, whatever the way."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
