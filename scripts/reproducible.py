#!/usr/bin/env python3
"""Compile models for reproducible results on several targets, run them, and compare digests of the results.

    .venv/bin/python scripts/reproducible.py [NAME|FILE.onnx]... [--ops [N]] [--random N] [--target NAME]... [--threads 1,2] [--default] [--golden]

NAME is one of the networks of test/support/reproducible_models.py, a small version of a network of the zoo (default: all). `--ops` compares N rows of
test cases of each op, `--random N` random networks of convolutions and of products. Targets that this machine runs are called directly; those of
other machines run as bundles in qemu or Node, if these and a cross compiler are installed. `--default` compiles without the option, which shows what
it changes. The status is 1 if results differ.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import environment

if TYPE_CHECKING:
    import numpy as np
    from bundle_models import Case
    from random_models.comparison import Example

ROOT = Path(__file__).resolve().parent.parent
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""The targets of this machine's family that are compared by default, as far as it runs them."""
TOGETHER = 48  # cases of ops in one model


def main() -> int:
    """Parse the arguments, and compare; 0 if all results are the same, 1 if not, 2 for wrong usage (argparse)."""
    sys.path.insert(0, str(ROOT / "test" / "support"))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # avoids spinning when two threads share a core
    from crossing import OTHERS, why_not_here
    from guarded import NAMED
    from node_bundles import why_no_modules
    from reproducible_models import MODELS, WASM, write_golden

    parser = argparse.ArgumentParser(description="Compare the bits of reproducible results between targets.")
    parser.add_argument("models", nargs="*", metavar="NAME|FILE", help=f"an ONNX file of known sizes, or one of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--ops", nargs="?", type=int, const=4, metavar="N", help="rows of cases of each op instead, on this machine (default: 4)")
    parser.add_argument("--random", type=int, metavar="N", help="random networks of convolutions and of matrix products instead, N of each")
    parser.add_argument("--target", action="append", metavar="NAME", help=f"one target (default: {', '.join(LEVELS)} and others that can be run)")
    parser.add_argument("--threads", default="1,2,3", metavar="N,M", help="numbers of threads (default: 1,2,3)")
    parser.add_argument("--seed", type=int, default=0, help="of random networks (default: 0)")
    parser.add_argument("--default", action="store_true", help="compile without the option")
    parser.add_argument("--golden", action="store_true", help="write the digests that tests expect")
    options = parser.parse_args()
    threads = tuple(map(int, options.threads.split(",")))
    others = {name: why_not_here(name) for name in OTHERS} | {WASM: why_no_modules()}
    known = [name for name in LEVELS if name in NAMED] + [name for name, reason in others.items() if reason is None]
    for name in options.target or ():
        if name not in (*NAMED, *others):
            parser.error(f"no target {name} that can be run; there are {', '.join((*NAMED, *others))}")
        if (reason := others.get(name)) is not None:
            parser.error(reason)
    if options.golden:
        write_golden()
        return 0
    targets = options.target or known
    if options.ops is not None:
        return compare_ops(options.ops, [name for name in targets if name in NAMED], threads[:2])
    differing = 0
    for case in cases(options):
        differing += not compare(case, targets, threads, reproducible=not options.default)
    print(f"{differing} with different results")
    return int(differing > 0)


def cases(options: argparse.Namespace) -> "Iterator[Case]":
    """The models that the options select, with data."""
    import onnx
    from bundle_models import Case
    from reproducible_models import MODELS, model_of

    if options.random is not None:
        yield from random_cases(options.random, options.seed)
        return
    for name in options.models or MODELS:
        if name in MODELS:
            yield model_of(name)
        else:
            yield Case(Path(name).stem.replace("-", "_"), onnx.load(name), [random_feed(Path(name))])


def random_feed(path: Path) -> "dict[str, np.ndarray]":
    """Random data for a model whose inputs have known sizes."""
    import stepwell
    from stepwell.analysis.random_inputs import random_array
    from stepwell.signature import TensorInfo

    inputs = [TensorInfo.from_type(name, kind) for name, kind in stepwell.lower(path, "graph").info.inputs]
    return {info.name: random_array(info, 0, index) for index, info in enumerate(inputs)}


def random_cases(count: int, seed: int) -> "Iterator[Case]":
    """Random networks of both kinds."""
    from bundle_models import Case

    for kind in ("convolutions", "matmuls"):
        for number, example in enumerate(drawn(kind, count, seed)):
            yield Case(f"{kind}{number}", example.model, [example.inputs])


def drawn(kind: str, count: int, seed: int) -> "list[Example]":
    """Random networks of a kind; the same seed gives the same ones."""
    import hypothesis
    from random_models.comparison import examples

    found: list[Example] = []
    quiet = hypothesis.settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate]
    )

    def keep(example: "Example") -> None:
        found.append(example)

    hypothesis.seed(seed)(quiet(hypothesis.given(examples(kind))(keep)))()
    return found


def compare(case: "Case", targets: Sequence[str], threads: Sequence[int], *, reproducible: bool) -> bool:
    """Print the digest of a model's results for each target and number of threads, and where they differ. Returns whether they are the same."""
    from reproducible_models import WASM, digest, outputs_of

    print(case.name, flush=True)
    case = replace(case, options={**case.options, "reproducible": reproducible, "specialise": "never"})
    first: list[np.ndarray] | None = None
    are_same = True
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            for count in threads if target != WASM else (1,):
                arrays = outputs_of(case, target, Path(folder) / str(count), count)
                first = first or arrays
                where = difference(first, arrays)
                print(f"  {target:15} {count} thread{'s' * (count > 1):1}  {digest(arrays)}  {where or ''}".rstrip(), flush=True)
                are_same &= where is None
    return are_same


def difference(expected: "Sequence[np.ndarray]", got: "Sequence[np.ndarray]") -> str | None:
    """The first element that differs, as text; None if all are the same."""
    import numpy as np
    from reproducible_models import without_payloads

    for number, (want, have) in enumerate(zip(expected, got, strict=True)):
        if (want.dtype, want.shape) != (have.dtype, have.shape):
            return f"array {number}: {have.dtype}{have.shape} for {want.dtype}{want.shape}"
        bits = [np.ascontiguousarray(without_payloads(a)).reshape(-1).view(np.uint8).reshape(a.size, a.itemsize) for a in (want, have)]
        wrong = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
        if len(wrong):
            at = int(wrong[0])
            return f"array {number}: {len(wrong)} of {want.size} elements, at {at} {have.reshape(-1)[at]} for {want.reshape(-1)[at]}"
    return None


def compare_ops(rows: int, targets: Sequence[str], threads: Sequence[int]) -> int:
    """Compare cases of all ops; 0 if the results are the same."""
    from native_ops import NOT_NATIVE, batches, instances
    from op_cases import with_cases
    from reproducible_models import op_differences

    known = [name for name in with_cases() if name not in NOT_NATIVE]
    every = (single for name in known for single in instances(name, targets[:1], first=rows))
    count = wrong = 0
    for batch in batches(every, TOGETHER):
        for text in op_differences(batch, targets, threads):
            wrong += 1
            print(text, flush=True)
        count += len(batch)
        print(f"{count} cases, {wrong} with different results", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    environment.need(__doc__, "test", "hypothesis", "pytest", for_help=(*environment.BASE, "pytest"))
    sys.exit(main())
