"""A part of ONNX's backend suite through bundles: right, or unsupported by name. `scripts/onnx_suite.py --way bundle` runs all of it."""

import zlib

from backend_suite.cases import cases
from backend_suite.joining import batches
from backend_suite.verdicts import judge_together
from watchdog import Watchdog

EVERY = 24


def test_cases_through_the_interface_in_c() -> None:
    drawn = [case for case in cases() if zlib.crc32(case.name.encode()) % EVERY == 5 and not case.name.endswith("_expanded")]
    assert len(drawn) > 30
    with Watchdog(first="objects_once:share_plain_objects") as dog:
        found = [verdict for batch in batches(drawn) for verdict in judge_together(dog, batch, "given", {"bundle": True})]
    assert [str(verdict) for verdict in found if verdict.status not in ("passed", "unsupported")] == []
    assert sum(verdict.status == "passed" for verdict in found) > 0.8 * len(found)
