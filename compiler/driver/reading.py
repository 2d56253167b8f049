"""Reads the source of a model for a compilation, and checks that it has not changed since it was first read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.cache.disk import Cache
from stepwell.cache.fingerprint import toolchain_key
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.digests import digest_of, file_digest, key_of
from stepwell.dialects.support.processes import uninterrupted
from stepwell.driver.origin import Origin
from stepwell.frontends.base import ImportedModel, NeedsError
from stepwell.options import CompileOptions

if TYPE_CHECKING:
    from stepwell.driver.recorded import LocalRecords
    from stepwell.passes.framework.recorded import Recorded
    from stepwell.pipelines.lowered import Lowered


class Reading:
    """The digests of the parts of a model that one compilation reads. Together with options and tuning records they determine its result."""

    def __init__(self, origin: Origin, options: CompileOptions, threads: int) -> None:
        self.origin = origin
        self.options = options
        self.records = None if options.tuning is None else _local_records(options, threads)
        """The tuning records that may decide; None without them."""
        self.toolchain: str | None = None
        """The toolchain key at the time `key` was called."""
        self.digest: bytes | None = None
        """The digest of the model's bytes at that time."""
        self._has_changed = False

    def key(self, store: Cache) -> str | None:
        """The key of the result in the cache; None if it cannot be computed."""
        self.toolchain, self.digest = toolchain_key(self.options.machine), self.origin.digest()
        if self.toolchain is None or self.digest is None:
            return None
        key = key_of(self.toolchain, self.origin.front_end.name, self.digest, self.options.key())
        return key if self.records is None else self.records.key(store, key)

    @property
    def is_of_key(self) -> bool:
        """Whether a result may be stored under the key: model, toolchain and records still match it."""
        is_current = self.records is None or self.records.is_current
        return is_current and not self._has_changed and toolchain_key(self.options.machine) == self.toolchain

    def model(self) -> tuple[ImportedModel, float]:
        """The model at the level graph, to be passed to `check`, and the time in seconds. Raises ModelError if it has changed."""
        with uninterrupted():
            from stepwell.driver.lowering import import_source

        if self.origin.is_object:  # record the digests of a caller's object before it is read
            self.digest = self.origin.digest() if self.digest is None else self.digest
            self.origin.check(self.digest, {})
        return import_source(self.origin.source, self.options)

    def check(self, read: ImportedModel | NeedsError, unread: Sequence[Path] = ()) -> Mapping[Path, bytes]:
        """The digests of external data files, including the `unread` ones that may be read later. Raises ModelError if the model has changed."""
        digest = self.origin.digest() if read.content is None else digest_of(read.content)
        digests = {path: digest_of(content) for path, content in read.files.items()}
        later = {path: file_digest(path) for path in unread}
        digests.update({path: found for path, found in later.items() if found is not None})
        self.origin.check(digest, digests)
        self._has_changed = digest != self.digest
        return digests

    def recorded(self, imported: ImportedModel, files: Mapping[Path, bytes]) -> "Recorded | None":
        """The decisions of tuning records about the model, with the digests of its files as `check` returns them."""
        return None if self.records is None else self.records.of_model(self.origin, imported, files)

    def close(self) -> None:
        """Release the records: a model keeps this object to show its IR, and its file of records is not to stay open as long."""
        self.records = None

    def start(self, plan: str) -> "Lowered":
        """The model at the level graph again, to be lowered with the `plan` in use. Raises ModelError if it has changed since it was compiled."""
        with uninterrupted():
            from stepwell.driver.lowering import start

        imported, seconds = self.model()
        self.check(imported)
        options = self.options
        if options.tuning is not None:  # records may have changed, but what was taken from them is in the plan
            options = replace(options, plan=Plan.parse(plan) if plan else None, tuning=None)
        return start(imported, options, options.passes(), seconds)


def _local_records(options: CompileOptions, threads: int) -> "LocalRecords | None":
    from stepwell.driver.recorded import LocalRecords  # imported here, because few compilations need it

    return LocalRecords.wanted(options, threads)
