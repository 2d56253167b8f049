"""What a command does about native code that dies: it finds out in which pass, and leaves a reproducer.

A crash ends the process before anything can be said. So a process that was forked before it all began waits on a socket. The process that
dies writes its traceback there (`faulthandler`) and, the socket being small, waits in that until somebody reads: meanwhile the other one runs
the same command again, which writes down what it does (`passes/framework/crash_record.py`), and reduces what was recorded to one file.
"""

import atexit
import faulthandler
import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stepwell.cli.display import say

__all__ = ["crash_report", "reproducer", "watch_for_crashes"]

RECORDING = "STEPWELL_CRASH_RECORD"  # as passes/framework/crash_record.py has it, which loads the bindings
LONGEST = 600
"""Seconds that a command may take when it is run again."""
MOST_FUNCTIONS = 24
"""How many functions are tried alone, where the record does not say in which one a pass died."""
FINE = b"\0"

_kept: list[socket.socket] = []


def watch_for_crashes(program: str) -> None:
    """Have a process wait for this one to die in native code. Nothing happens where there are no forks, or in the run that is recorded."""
    if _kept or RECORDING in os.environ or not hasattr(os, "fork"):
        return
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork() == 0:
        status = 1
        with suppress(BaseException):
            ours.close()
            _wait(program, theirs)
            status = 0
        os._exit(status)
    theirs.close()
    _kept.append(ours)
    faulthandler.enable(file=ours, all_threads=False)
    os.register_at_fork(after_in_child=_forget)
    atexit.register(stop_watching)


def stop_watching() -> None:
    """Tell the process that waits that all went well."""
    if _kept:
        with suppress(OSError):
            _kept[0].send(FINE)
        _forget()


def _forget() -> None:
    """In a process that was forked, or at the end: what dies here is none of the other's business."""
    if _kept:
        faulthandler.disable()
        _kept.pop().close()


def _wait(program: str, other: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    said = other.recv(4096)
    if said in (b"", FINE):
        return
    try:
        report = crash_report(program, sys.argv)
    finally:
        other.settimeout(1.0)
    traceback = said
    if not report:
        with suppress(OSError):
            while more := other.recv(4096):
                traceback += more
        report = f"{program}: error: native code died, and did not when the command ran again; it was here:\n{traceback.decode(errors='replace')}"
    say(report, file=sys.stderr, flush=True)


def crash_report(program: str, command: Sequence[str]) -> str:
    """Run a command again, recorded, and say where native code died; "" if it does not die again."""
    with tempfile.TemporaryDirectory(prefix="stepwell-crash-") as folder:
        ended = _run(_again(program, command[1:]), Path(folder))
        if ended is None or ended >= 0:
            return ""
        name = signal.Signals(-ended).name
        file = Path(folder) / "record.json"
        if not file.exists():
            return f"{program}: error: native code died ({name}) before the first pass, or reading what it was given"
        record = json.loads(file.read_text())
        made = reproducer(record, Path(folder), _flags(command), *_values(command, "--reproducer")[-1:])
        tail = "no smaller run dies in the same way" if made is None else f"reproducer: {made[0]}; run it with: {made[1]}"
        return f"{program}: error: native code died ({name}) in {described(record)}; {tail}"


def described(record: Mapping[str, str]) -> str:
    """Where a record says that the process was."""
    level, function = record.get("level"), record.get("function")
    text = f"{f'level {level}, ' if level else ''}pass '{record['pass']}'{record.get('line', '')}"
    if "pattern" in record:
        text += f", pattern '{record['pattern']}'{record['pattern line']} on '{record['op']}' at {record['location']}"
    return text + (f", function @{function}" if function else "")


def reproducer(record: Mapping[str, str], folder: Path, flags: Sequence[str], wanted: str | None = None) -> tuple[Path, str] | None:
    """The smallest file of those that are tried with which the pass alone dies, and the command; None if it dies with none.

    First the function alone that the record names, or each function alone, then the whole module. It is the file that is `wanted`, or a
    temporary one.
    """
    for text in _candidates(record, folder / "before.mlir"):
        if wanted is None:
            handle, name = tempfile.mkstemp(prefix=f"stepwell-crash-{record['pass']}-", suffix=".mlir")
            os.close(handle)
        file = Path(wanted or name)
        options = [f"--pass-pipeline={record['pipeline']}", *flags]
        shown = shlex.join(["stepwell-opt", *options, str(file)])
        file.write_text(f"// {shown}\n// native code dies in {described(record)}\n{text}", encoding="utf-8")
        weights = folder / "before.safetensors"
        beside = file.with_suffix(".safetensors")
        if weights.exists() and "graph.parameter" in text:
            beside.write_bytes(weights.read_bytes())
        ended = _run(_again("stepwell-opt", [*options, str(file)]), folder / "again")
        if ended is not None and ended < 0:
            return file, shown
        file.unlink()
        beside.unlink(missing_ok=True)
    return None


def _candidates(record: Mapping[str, str], file: Path) -> Iterator[str]:
    from stepwell.dialects.core.mlir import ir, make_context, parse_module
    from stepwell.dialects.support.errors import StepwellError

    text = file.read_text(encoding="utf-8")
    try:
        module = parse_module(text, make_context())
    except StepwellError:
        yield text
        return
    names = [ir.StringAttr(f.attributes["sym_name"]).value for f in module.body.operations if f.operation.name == "func.func"]
    function = record.get("function")
    for name in [function] if function in names else names[:MOST_FUNCTIONS] if len(names) > 1 else []:
        with suppress(StepwellError):
            yield _alone(text, str(name))
    yield text


def _alone(text: str, name: str) -> str:
    """A module of one function, with declarations of those that it calls."""
    from stepwell.dialects.core.mlir import func, ir, make_context, ops_below, parse_module

    context = make_context()
    module = parse_module(text, context)
    with context, module.operation.location:
        functions = {ir.StringAttr(f.attributes["sym_name"]).value: f.operation for f in module.body.operations if f.operation.name == "func.func"}
        called = {ir.FlatSymbolRefAttr(op.attributes["callee"]).value for op in ops_below(functions[name], "func.call")}
        for other, op in functions.items():
            if other == name:
                continue
            if other in called and len(op.regions[0].blocks):
                with ir.InsertionPoint(op), op.location:
                    func.FuncOp(other, op.opview.type, visibility="private")
                op.erase()
            elif other not in called:
                op.erase()
        shown: str = module.operation.get_asm(enable_debug_info=True)
    return shown


def _again(program: str, arguments: Sequence[str]) -> list[str]:
    module = "stepwell.cli.opt" if program == "stepwell-opt" else "stepwell.cli.main"
    return [sys.executable, "-c", f"import sys; from {module} import main; sys.exit(main())", *arguments]


def _run(command: Sequence[str], record: Path) -> int | None:
    """The status of a command that records what it does; None if it takes too long."""
    record.mkdir(exist_ok=True)
    environment = {**os.environ, RECORDING: str(record)}
    try:
        null = subprocess.DEVNULL
        return subprocess.run(command, env=environment, stdin=null, stdout=null, stderr=null, timeout=LONGEST, check=False).returncode
    except subprocess.TimeoutExpired:
        return None


def _flags(command: Sequence[str]) -> list[str]:
    """The options of a command that its reproducer needs too: plugins and the target."""
    found = [f"{name}={value}" for name in ("--load", "--target") for value in _values(command, name)]
    return [*found, *(["--allow-unregistered-dialect"] if "--allow-unregistered-dialect" in command else [])]


def _values(command: Sequence[str], name: str) -> list[str]:
    """The values of an option of a command, each in an argument of its own or behind `=`."""
    apart = [value for option, value in itertools.pairwise(command) if option == name]
    return apart + [argument.partition("=")[2] for argument in command if argument.startswith(f"{name}=")]
