"""``bspforest compile``: compile all kernels into numba's cache."""

from __future__ import annotations

import argparse
import time

from ..formatting import format_count
from ..progress import compile_kernels
from ..terminal import print_lines


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    begun = time.perf_counter()
    n = compile_kernels()
    if n:
        print_lines(f"{format_count(n, 'kernel')} compiled in {time.perf_counter() - begun:.0f} s.")
    else:
        print_lines("All kernels are compiled.")
    return 0
