#!/usr/bin/env python3
"""Plant one fault at a time in passes and lowerings, and report those that the tests do not detect.

    .venv/bin/python scripts/mutate.py [FILE_OR_FOLDER ...] [--kind KIND] [--every N] [--seed N] [--wide] [--seconds N] [--json FILE]
    .venv/bin/python scripts/mutate.py --sample 100 --seed N [--kind KIND] --json FILE
    .venv/bin/python scripts/mutate.py --replay [FILE] [--json FILE]

Faults are planted in a copy of the checkout under build/mutation. A fault that survives is printed with its file and line. Faults that change no
result are listed, each with its reason, in scripts/mutation/harmless.json and are not tried. The last lines are the score by folder.

With --sample, the given number of faults is spread evenly over the folders, and FILE records each with the test that detected it; a second call
continues where the first ended. With --replay, the detected faults of such a record are planted again, and the test that detected each is run first.
This shows the faults that are no longer detected, and those that can no longer be planted because their line is gone. The records of this checkout
are scripts/mutation/sample.json, for operators, and scripts/mutation/choices.json, for all other kinds; both are replayed if none is named.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutation.edits import KINDS, Edit, edits, sample, statement
from mutation.sampling import replay, try_sample
from mutation.selection import folder_of, folders, select, sources
from mutation.trial import Copy, FailsUnchangedError, Outcome

from stepwell.dialects.support.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
HARMLESS = Path(__file__).parent / "mutation" / "harmless.json"
SAMPLES = tuple(Path(__file__).parent / "mutation" / name for name in ("sample.json", "choices.json"))


def harmless() -> set[tuple[str, str, str]]:
    """The faults that change no result: file, line's text without a comment, edit. Raises ValueError for an entry without a reason."""
    entries = json.loads(HARMLESS.read_text())
    if not all(entry["reason"] for entry in entries):
        raise ValueError(f"{HARMLESS}: an entry lacks its reason")
    return {(entry["path"], entry["source"], entry["what"]) for entry in entries}


def chosen(places: list[str], kinds: Sequence[str], every: int, seed: int) -> list[Edit]:
    """A sample of the faults of the given kinds in files or folders of the checkout, without those that are listed as harmless."""
    known = harmless()
    found = []
    for path in sources(ROOT, places):
        source = (ROOT / path).read_text()
        lines = source.splitlines()
        found += [e for e in edits(path, source) if e.kind in kinds and (path, statement(lines[e.line - 1]), e.what) not in known]
    return list(sample(found, every, seed))


def report(outcomes: list[Outcome]) -> None:
    """Print the score by folder: the share of detected faults."""
    tried, survived = Counter(folder_of(o.path) for o in outcomes), Counter(folder_of(o.path) for o in outcomes if o.state == "survived")
    for folder in folders():
        if tried[folder]:
            seen = tried[folder] - survived[folder]
            print(f"{folder:28} {seen:5} of {tried[folder]:5} seen  {100 * seen / tried[folder]:5.1f} %")


def absolute(text: str) -> Path:
    """An absolute path for a path relative to the working directory, because tests run elsewhere."""
    return Path(text).absolute()


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and plant the faults; 0 if each was detected, 1 if one survived, 2 for wrong usage (argparse)."""
    parser = argparse.ArgumentParser(description="Plant one fault at a time in passes and lowerings, and say which the tests do not see.")
    parser.add_argument("places", nargs="*", default=folders(), metavar="FILE_OR_FOLDER", help="where (default: all folders that have tests)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each N-th fault only (default: 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="from the N-th on (default: 0)")
    parser.add_argument("--wide", action="store_true", help="ask the tests of other folders too before a fault counts as survived")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no fault after so many seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes there, and leave out those that it has")
    parser.add_argument("--sample", type=int, metavar="N", help="a fixed sample of N faults of all folders, recorded in --json FILE")
    kept = ", ".join(str(file.relative_to(ROOT)) for file in SAMPLES)
    parser.add_argument("--replay", type=Path, nargs="*", metavar="FILE", help=f"the faults of such records (default: {kept})")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only faults of this kind; may be repeated (default: all)")
    copied = ROOT / "build" / "mutation"
    parser.add_argument("--copy", type=absolute, default=copied, metavar="DIR", help="of the copy (default: build/mutation)")
    options = parser.parse_args(arguments)
    if options.every < 1:
        parser.error(f"--every: expected at least 1, got {options.every}")
    for place in options.places:
        if not (ROOT / place).exists() or not any(f"{place.rstrip('/')}/".startswith(f"{folder}/") for folder in folders()):
            parser.error(f"{place}: expected a file or folder below {', '.join(folders())}")
    if options.sample is not None and (options.json is None or options.sample < 1):
        parser.error("--sample: expected at least 1, and --json FILE")
    records = None if options.replay is None else options.replay or SAMPLES
    for record in records or ():
        if not record.is_file():
            parser.error(f"--replay: expected a file that --sample wrote, got {record}")
    if records is not None and len(records) > 1 and options.json is not None:
        parser.error("--replay: expected one FILE with --json")
    kinds = options.kind or KINDS
    end = time.monotonic() + options.seconds
    try:
        if options.sample is not None:
            return try_sample(ROOT, Copy(ROOT, options.copy), options.sample, options.seed, kinds, options.json, end, harmless(), wide=options.wide)
        if records is not None:
            copy = Copy(ROOT, options.copy)
            return max([replay(ROOT, copy, record, options.json, end, wide=options.wide) for record in records])
    except FailsUnchangedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    before = json.loads(options.json.read_text()) if options.json is not None and options.json.exists() else {}
    copy = Copy(ROOT, options.copy)
    state = copy.state
    same = before.get("state") == state
    copy.seconds = before["seconds"] if same else {}
    # Surviving faults are tried again if anything has changed (an added test may detect them), or if more tests are selected.
    settled = same and before["wide"] >= options.wide
    outcomes = [o for o in (Outcome(**entry) for entry in before.get("outcomes", ())) if settled or o.state != "survived"]
    done = {(o.path, o.source, o.what, o.line) for o in outcomes}
    todo = chosen(options.places, kinds, options.every, options.seed)
    selections = {path: select(ROOT, path, wide=options.wide) for path in {e.path for e in todo}}
    for number, edit in enumerate(todo):
        line = (copy.folder / edit.path).read_text().splitlines()[edit.line - 1].strip()
        if (edit.path, line, edit.what, edit.line) in done:
            continue
        if time.monotonic() > end:
            print(f"{len(todo) - number} faults were not tried: the time is up")
            break
        try:
            outcome = copy.attempt(edit, selections[edit.path])
        except FailsUnchangedError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        outcomes.append(outcome)
        if outcome.state == "survived":
            print(f"{edit.path}:{edit.line}: {edit.what}: survived ({outcome.seconds} s)\n    {outcome.source}", flush=True)
        if options.json is not None:
            found = {"state": state, "wide": options.wide, "seconds": copy.seconds, "outcomes": [o.to_json() for o in outcomes]}
            write_atomically(options.json, json.dumps(found, indent=0))
    report(outcomes)
    return int(any(o.state == "survived" for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
