"""Run the paper's experiments: ``python -m experiments`` takes minutes, ``--full`` takes hours.

Finished jobs are kept, so an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import airline, classification, cost, efficiency, friedman, page, prices, tuning
from .runner import FULL, QUICK, Run

# Cheap experiments run first; the page follows the order of the paper.
EXPERIMENTS = {e.NAME: e for e in (tuning, efficiency, friedman, classification, prices, cost, airline)}
PAGE = (tuning, classification, friedman, prices, airline, efficiency, cost)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="experiment", help=f"any of {', '.join(EXPERIMENTS)} (default: all)"
    )
    parser.add_argument(
        "--full", action="store_true", help="use the paper's settings, about three and a half hours on two cores"
    )
    parser.add_argument("--results", type=Path, help="folder for the tables (default: results/quick or results/full)")
    parser.add_argument(
        "--page", type=Path, help="file for the page (default: docs/results.md with --full, else in the results folder)"
    )
    parser.add_argument("--data", help="folder with the datasets (default: the environment variable BSPFOREST_DATA)")
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="number of cores to use (default: %(default)s)"
    )
    parser.add_argument(
        "--methods", nargs="+", default=[], metavar="method", help="only run these methods, such as auto and lightgbm"
    )
    parser.add_argument("--page-only", action="store_true", help="only write the page, from existing results")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"unknown experiment {unknown[0]!r}: choose from {', '.join(EXPERIMENTS)}")
    known = {job.method for e in EXPERIMENTS.values() for job in e.plan(FULL)}
    unknown = [name for name in options.methods if name not in known]
    if unknown:
        parser.error(f"unknown method {unknown[0]!r}: choose from {', '.join(sorted(known))}")
    if options.jobs < 1:
        parser.error(f"--jobs must be 1 or more, got {options.jobs}")
    scale = FULL if options.full else QUICK
    folder = options.results or Path("results") / scale.name
    run = Run(folder, scale, options.jobs, options.data)
    chosen = [EXPERIMENTS[name] for name in options.names] or list(EXPERIMENTS.values())
    if tuning not in chosen and any(e in chosen for e in (friedman, classification, prices, airline)):
        chosen = [tuning, *chosen]
    failed = []
    if not options.page_only:
        try:
            failed = run.execute(chosen, options.methods)
        except KeyboardInterrupt:
            print("\nStopped. Run the same command again to resume.", file=sys.stderr)
            return 130
    written = page.write(run, PAGE, options.page or default_page(folder, options.full))
    print(f"Results: {written}")
    if failed:
        print(f"{len(failed)} jobs failed; the first was {failed[0][0]}: {failed[0][1]}", file=sys.stderr)
    return 1 if failed else 0


def default_page(folder: Path, full: bool) -> Path:
    return Path("docs/results.md") if full else folder / "results.md"


if __name__ == "__main__":
    sys.exit(main())
