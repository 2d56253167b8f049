#!/usr/bin/env python3
"""The compile-and-run driver: `stepwell run` from a checkout.

    .venv/bin/python scripts/compile_and_run.py MODEL [options of `stepwell run`]
"""

import sys

from stepwell.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["run"]
    sys.exit(main())
