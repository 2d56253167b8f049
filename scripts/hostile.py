"""Compile the corpus of hostile models, or long chains of nodes, in a watched process; prints time and memory for each.

    scripts/hostile.py                     every model of test/support/hostile_models.py
    scripts/hostile.py --chains 5000       chains with this number of nodes, down to the level affine
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "support"))

from hostile_models import CHAINS, CORPUS, chain
from watchdog import GIB, Watchdog


def main() -> int:
    """Run the requested models; returns 1 if one exceeded its limits or did not end with success or one typed error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models of the corpus, or kinds of chains (default: all)")
    parser.add_argument("--chains", type=int, metavar="COUNT", help="compile chains of so many nodes")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each may take (default: 60)")
    parser.add_argument("--gib", type=float, default=2.0, help="how much memory each may take, in GiB (default: 2)")
    options = parser.parse_args()
    failed = 0
    with Watchdog() as dog:
        for name in options.names or (CHAINS if options.chains else CORPUS):
            data = chain(name, options.chains).SerializeToString() if options.chains else CORPUS[name]()
            function = "hostile_models:lower_model" if options.chains else "hostile_models:compile_model"
            outcome = dog.call(function, data, seconds=options.seconds, memory=int(options.gib * GIB))
            fine = outcome.kind == "returned" and re.match(r"compiled$|lowered$|SW0\d\d (?!internal)", outcome.value) is not None
            failed += not fine
            word, said = "fine" if fine else "WRONG", " ".join(str(outcome.value).split())[:100]
            print(f"{word:6} {name:28} {outcome.seconds:6.1f} s {outcome.peak >> 20:6} MiB  {said}", flush=True)
            if not fine:
                print(outcome)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
