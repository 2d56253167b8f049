"""Handles crashes of native code in a command: finds the pass that crashed, and leaves a reproducer.

A crash ends the process before it can report anything. So a process forked at the beginning waits on a socket. The dying process writes its traceback
there (`faulthandler`) and, because the socket is small, blocks until it is read: meanwhile the other process runs the same command again with
recording (`passes/framework/crash_record.py`), and reduces the record to one file.
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

RECORDING = "STEPWELL_CRASH_RECORD"  # equal to the name in passes/framework/crash_record.py, which loads the bindings
LONGEST = 600
"""The time limit, in seconds, for running a command again."""
MOST_FUNCTIONS = 24
"""The largest number of functions that are tried separately if the record does not name the one in which a pass crashed."""
FINE = b"\0"

_kept: list[socket.socket] = []


def watch_for_crashes(program: str) -> None:
    """Start a process that waits for a native crash of this one. Does nothing without fork, or in the recorded run."""
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
    """Tell the waiting process that the command succeeded."""
    if _kept:
        with suppress(OSError):
            _kept[0].send(FINE)
        _forget()


def _forget() -> None:
    """Stop watching, in a forked process or at the end: a crash from here on does not concern the other process."""
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
    """Run a command again, with recording, and report where native code crashed; "" if it does not crash again."""
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
    """The position of a process according to a record, as text."""
    level, function = record.get("level"), record.get("function")
    text = f"{f'level {level}, ' if level else ''}pass '{record['pass']}'{record.get('line', '')}"
    if "pattern" in record:
        text += f", pattern '{record['pattern']}'{record['pattern line']} on '{record['op']}' at {record['location']}"
    return text + (f", function @{function}" if function else "")


def reproducer(record: Mapping[str, str], folder: Path, flags: Sequence[str], wanted: str | None = None) -> tuple[Path, str] | None:
    """The smallest tried file with which the pass alone crashes, and the command; None if it crashes with none.

    The function that the record names is tried alone first, or each function alone, then the whole module. The file is the one that is `wanted`, or a
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
    """A module of one function, with declarations of its callees."""
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
    """The exit status of a command that records its steps; None if it takes too long."""
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
    """The values of an option of a command, each in the next argument or behind `=`."""
    separate = [value for option, value in itertools.pairwise(command) if option == name]
    return separate + [argument.partition("=")[2] for argument in command if argument.startswith(f"{name}=")]
