"""The options that say which processes build and measure candidates: of this machine, or of a dask pool."""

import argparse
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.cli.common import Parser, UsageError, number
from stepwell.dialects.target.cores import MAX_THREADS, available_cores

if TYPE_CHECKING:
    from stepwell.tuning.dask_executor import Tls
    from stepwell.tuning.executor import Executor

_TLS = ("tls_ca_file", "tls_cert", "tls_key")


def add_pool_options(parser: Parser) -> None:
    """Add the options that `executor_of` reads."""
    add = parser.add_argument_group("processes that build and measure (docs/tuning-pool.md)").add_argument
    add("--jobs", type=number(1, MAX_THREADS), metavar="N", help="how many builds at once on this machine (default: one a core)")
    add("--pool", action="store_true", help="build and measure in the processes of an embedded dask pool")
    add("--scheduler", metavar="ADDRESS", help="build and measure in the pool of a dask scheduler, such as tcp://HOST:8786 or tls://HOST:8786")
    add("--tls-ca-file", metavar="FILE", help="the certificate authority for encrypted connections of a pool, as of dask worker")
    add("--tls-cert", metavar="FILE", help="the certificate for them")
    add("--tls-key", metavar="FILE", help="the private key for them")
    add("--dashboard", metavar="ADDRESS", help="where --pool shows dask's status page, such as :8787 (default: nowhere)")


@contextmanager
def executor_of(options: argparse.Namespace) -> "Iterator[Executor]":
    """The executor that the options request, closed at the end of the block. Call it after plugins are loaded, because its processes load the same.

    Raises UsageError for options that exclude each other, InputError if a pool does not fit, ResourceError if it cannot be had.
    """
    check_pool_options(options)
    jobs = available_cores() if options.jobs is None else options.jobs
    if options.scheduler is not None:
        from stepwell.tuning.dask_executor import joined_pool

        executor: Executor = joined_pool(options.scheduler, _tls(options))
    elif options.pool:
        from stepwell.tuning.dask_executor import embedded_pool

        executor = embedded_pool(jobs, tls=_tls(options), dashboard=options.dashboard)
    else:
        from stepwell.tuning.executor import LocalExecutor

        executor = LocalExecutor(jobs)
    with closing(executor):
        yield executor


def check_pool_options(options: argparse.Namespace) -> None:
    """Raise UsageError for options that exclude each other and for files that do not exist."""
    if options.pool and options.scheduler is not None:
        raise UsageError("--pool starts a pool and --scheduler joins one: expected one of them")
    if options.scheduler is not None and not re.fullmatch(r"(tcp|tls)://\S+:\d{1,5}", options.scheduler):
        raise UsageError(f"--scheduler {options.scheduler}: expected an address such as tcp://HOST:8786 or tls://HOST:8786")
    if options.jobs is not None and options.scheduler is not None:
        raise UsageError("--jobs goes without --scheduler: the workers of its pool say how much they do at once")
    if options.dashboard is not None and not options.pool:
        raise UsageError("--dashboard goes with --pool")
    for name in _TLS:
        option, file = f"--{name.replace('_', '-')}", getattr(options, name)
        if file is not None and not options.pool and options.scheduler is None:
            raise UsageError(f"{option} goes with --scheduler or --pool")
        if file is not None and not Path(file).is_file():
            raise UsageError(f"{option} {file}: there is no such file")


def _tls(options: argparse.Namespace) -> "Tls | None":
    from stepwell.tuning.dask_executor import Tls

    files = [getattr(options, name) for name in _TLS]
    return Tls(*files) if any(file is not None for file in files) else None
