"""``bspforest compile``: compile all kernels into numba's cache."""

from __future__ import annotations

import argparse
import time

from ..progress import compile_kernels


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    begun = time.perf_counter()
    n = compile_kernels()
    if n:
        print(f"{n} kernels compiled in {time.perf_counter() - begun:.0f} s.")
    else:
        print("All kernels are compiled.")
    return 0
