"""Threads that begin at the same moment."""

import threading
from collections.abc import Callable


def together(*works: Callable[[], None]) -> None:
    """Run functions in a thread each, all begun at the same moment; raises what one of them raised."""
    barrier, errors = threading.Barrier(len(works)), []

    def run(work: Callable[[], None]) -> None:
        try:
            barrier.wait()
            work()
        except BaseException as error:  # told by the thread that waits
            errors.append(error)

    started = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]
