"""The program that stands for a fork of command_server.py: `python -I -S fork_client.py ADDRESS PYTHON ARGUMENT...`.

It starts often, and so imports little.
"""

import marshal
import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket


def main(address: str, arguments: list[str]) -> None:
    """Hand a program over, wait until it has ended, and end in the same way."""
    files = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_open(number)]
    server = socket(AF_UNIX)
    server.connect(f"\0{address}")
    umask = os.umask(0)
    os.umask(umask)
    data = marshal.dumps((list(map(os.fsencode, arguments)), os.getcwdb(), umask, files, dict(os.environb)))
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
    server.sendmsg([len(data).to_bytes(8, "little")], [(SOL_SOCKET, SCM_RIGHTS, numbers)])
    server.sendall(data)
    if server.recv(3) == b"no":
        os.execv(arguments[0], arguments)
    for number in files:
        if number > 2:
            os.close(number)  # a pipe ends when the fork closes it
    status = int(server.recv(100) or b"1")
    if status < 0:
        from signal import SIG_DFL, signal

        if -status not in (9, 19):
            signal(-status, SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
