"""The tuning records of this machine for a compilation: the option `tuning`. Without it, none of this runs."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from stepwell.cache.disk import Cache
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.digests import digest_of, key_of
from stepwell.dialects.support.errors import ModelWarning, StepwellError, warn_caller
from stepwell.dialects.support.names import printable
from stepwell.dialects.support.numbers import whole_number
from stepwell.dialects.target.registry import resolve
from stepwell.driver.origin import Origin
from stepwell.frontends.base import ImportedModel
from stepwell.options import CompileOptions, canonical

if TYPE_CHECKING:
    from stepwell.database.records import Decision, Workload
    from stepwell.passes.framework.recorded import Recorded

R = TypeVar("R")
_SCHEDULE = "schedule"  # the kind of workload whose content is a kernel; that of all others is a network
_APART = ("target", "shapes", "specialise", "plan", "schedule", "tuning")  # options that are no part of a network's content


class Database(Protocol):
    """The part of the tuning database that compilations read. `target` is the digest of a target."""

    def stamp(self, target: str, threads: int) -> str:
        """A text that changes whenever the decisions or plans change."""

    def plan(self, content: str, target: str, threads: int) -> str | None:
        """The text of the confirmed plan of a network (`network_content`)."""

    def decisions(self, target: str, threads: int) -> "Mapping[Workload, Decision]":
        """All decisions."""


def local_database() -> Database | None:
    """The tuning database of this machine; None if there is none, or if the environment switches it off. Raises InputError for bad values there."""
    from stepwell.database.database import chosen_database  # imported here, because it loads sqlite3

    return chosen_database()


def network_content(origin: Origin, model: ImportedModel, options: CompileOptions, files: Mapping[Path, bytes] | None = None) -> str:
    """The digest under which records know a network: of the model, its external data files, the types of its inputs, and its options.

    These types stand for `shapes` and `specialise`: a version that is specialised for some sizes is the network that is compiled for them. The target
    is apart in records, as are threads; `plan` and `tuning` are what records are about. `files` are the digests of the external files, if they are
    known. Empty if the model has no digest.
    """
    digest = origin.digest() if model.content is None else digest_of(model.content)
    if digest is None:
        return ""
    found = {file: digest_of(content) for file, content in model.files.items()} if files is None else files
    folder = origin.folder or Path()
    beside = sorted((os.path.relpath(file.absolute(), folder.absolute()), content) for file, content in found.items())
    how = repr([(entry.name, canonical(getattr(options, entry.name))) for entry in fields(options) if entry.name not in _APART])
    inputs = repr([(name, str(kind)) for name, kind in model.inputs])
    return key_of(origin.front_end.name, digest, how, inputs, *(part for file in beside for part in file))


class LocalRecords:
    """The records of this machine that may decide in a compilation for some threads."""

    @staticmethod
    def wanted(options: CompileOptions, threads: int) -> "LocalRecords | None":
        """The records that the option `tuning` asks for; None without it, or without a database."""
        database = None if options.tuning is None else local_database()
        return None if database is None else LocalRecords(database, options, threads)

    def __init__(self, database: Database, options: CompileOptions, threads: int) -> None:
        self._database: Database | None = database
        self._options, self._threads = options, threads
        self._stamped: tuple[str, str] | None = None

    def key(self, store: Cache, key: str) -> str:
        """The key of a compiled model in the cache: `key`, which the model has without records, and the stamp of the records."""
        target = self._target_of(store, key)
        stamp = self._asked(lambda database: database.stamp(target, self._threads), None)
        self._stamped = None if stamp is None else (target, stamp)
        return key if stamp is None else key_of(key, str(self._threads), stamp)

    @property
    def is_current(self) -> bool:
        """Whether the records are those of the key."""
        if self._stamped is None:
            return True
        target, stamp = self._stamped
        return self._asked(lambda database: database.stamp(target, self._threads), None) == stamp

    def of_model(self, origin: Origin, model: ImportedModel, files: Mapping[Path, bytes] | None = None) -> "Recorded":
        """The decisions about an imported model: its own plan, otherwise the schedules of single kernels.

        Code for all sizes takes only choices from its plan: schedules are for one set of shapes. Arguments are those of `network_content`.
        """
        content, target = network_content(origin, model, self._options, files), resolve(self._options.machine).digest
        recorded = self._of_network(content, target)
        if not model.is_general:
            return recorded if recorded.plan is not None else self.of_kernels(target, recorded)
        return recorded if recorded.plan is None else replace(recorded, plan=replace(recorded.plan, kernels={}))

    def of_kernels(self, target: str, recorded: "Recorded | None" = None) -> "Recorded":
        """The decisions about single kernels, added to `recorded`."""
        from stepwell.passes.framework.recorded import Recorded

        schedules: dict[tuple[str, str], dict[int, str]] = {}
        for workload, decision in self._decisions(target).items():
            kernel, _, op = workload.content.partition(":")
            place = whole_number(op)
            if workload.kind == _SCHEDULE and place is not None:
                schedules.setdefault((kernel, workload.above), {})[place] = decision.text
        return replace(recorded or Recorded(), schedules=schedules)

    def evidence(self, recorded: "Recorded", target: str) -> "dict[tuple[str, str], Decision]":
        """By kind and site, what was measured of the decisions that a compilation took, as far as it is recorded."""
        known = {(one.kind, one.content, one.above): decision for one, decision in self._decisions(target).items()}
        found: dict[tuple[str, str], Decision] = {}
        for (kind, site), taken in recorded.taken.items():
            content = site if taken.is_of_kernel else f"{recorded.content}:{site}"
            decision = known.get((kind, content, taken.above))
            if decision is not None and decision.text == taken.candidate:
                found[kind, site] = decision
        return found

    def _of_network(self, content: str, target: str) -> "Recorded":
        """The plan of a network, if the records have one that can be read and is for this target."""
        from stepwell.passes.framework.recorded import Recorded

        recorded = Recorded(content=content)
        text = self._asked(lambda database: database.plan(content, target, self._threads), None) if content else None
        if text is None:
            return recorded
        try:
            plan = Plan.parse(text, "tuning records")
        except StepwellError as error:
            recorded.ignore("the plan of this network", str(error.args[0]))
            return recorded
        if plan.target is not None and plan.target["digest"] != target:
            recorded.ignore("the plan of this network", "it is for another target")
            return recorded
        return replace(recorded, plan=plan)

    def _decisions(self, target: str) -> "Mapping[Workload, Decision]":
        return self._asked(lambda database: database.decisions(target, self._threads), {})

    def _target_of(self, store: Cache, key: str) -> str:
        """The digest of the target, which the cache keeps: finding out the host's loads LLVM, and takes longer than a warm start."""
        known = key_of(key, "target")
        kept = store.get("models", known)
        if kept is not None:
            return kept.decode()
        target = resolve(self._options.machine).digest
        store.put("models", known, target.encode())
        return target

    def _asked(self, question: Callable[[Database], R], otherwise: R) -> R:
        """The answer of the database. `otherwise` if it cannot be read, with a warning; it is then not asked again."""
        from sqlite3 import Error

        if self._database is None:
            return otherwise
        try:
            return question(self._database)
        except (Error, OSError, StepwellError) as error:
            self._database = None
            reason = str(error.args[0] if isinstance(error, StepwellError) else error)  # without the code
            warn_caller(ModelWarning(f"tuning records: not used, because they cannot be read: {printable(reason)}"))
            return otherwise
