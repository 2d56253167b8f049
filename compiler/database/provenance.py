"""The machine and the software with which records are made."""

import os
import platform
from functools import cache
from typing import TYPE_CHECKING

from stepwell.database.records import Provenance
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.installed import version
from stepwell.dialects.support.names import printable
from stepwell.dialects.target.host import first_processor, hardware, host

if TYPE_CHECKING:
    from stepwell.dialects.target.description import Target

_PACKAGES = ("stepwell", "torch-mlir", "llvmlite", "cmeel-libomp")


@cache
def this_machine() -> str:
    """The digest of this machine's processor and caches. Records of other machines never decide, even if the target has the same digest there."""
    return key_of(hardware())[:16]


def provenance_of(target: "Target") -> Provenance:
    """The provenance of records that are made on this machine for a target."""
    from stepwell.cache.fingerprint import code_generation  # imported here, because looking records up does not need it

    processor, machine = first_processor(), host()
    versions = {name: version(name) or "not installed" for name in _PACKAGES}
    versions |= {"python": platform.python_version(), "code generation": code_generation(target) or "unknown"}
    caches = (machine.caches.l1d, machine.caches.l2, machine.caches.l3)
    return Provenance(
        target.name, printable(processor.get("model name") or machine.cpu), tuple(sorted(machine.features)), caches, os.cpu_count() or 1,
        processor.get("microcode", "unknown"), f"{platform.system()} {platform.release()} {platform.machine()}", versions,
    )  # fmt: skip
