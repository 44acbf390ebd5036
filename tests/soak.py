"""Stress forests for as long as asked: threads, signals, exceptions injected into threads. Prints what was counted.

    python tests/soak.py --minutes 10 --kinds threads signals injected

Run by hand; the suite runs the same functions for seconds (tests/estimators/test_stress.py).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

import stress

KINDS = {
    "threads": lambda folder, seed: stress.run_threads(10.0, folder, n_jobs=1 + seed % 2, seed=seed),
    "signals": lambda folder, seed: stress.run_signals(500, folder, seed=seed),
    "injected": lambda folder, seed: stress.run_injected(500, folder, seed=seed),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long for each kind (default: 1)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind in options.kinds:
        total: Counter = Counter()
        end, seed = time.monotonic() + 60 * options.minutes, options.seed
        while time.monotonic() < end:
            with tempfile.TemporaryDirectory() as folder:
                total += KINDS[kind](Path(folder), seed)
            seed += 1
            print(f"\r{kind}: {dict(total)}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
