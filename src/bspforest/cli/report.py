"""What a person sees: progress, tables, a curve in a line of text, a picture."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from .errors import CommandError, NoMatplotlib, UsageError

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#666666")
_BARS = "▁▂▃▄▅▆▇█"


def compile_kernels() -> int:
    """Have all kernels compiled before any clock starts; how many were not. It says so, because it takes long, once on a machine."""
    from ..engine import precompile

    if precompile.are_compiled():
        return 0
    terminal = sys.stderr.isatty()
    label = "Compiling the kernels, once on a machine"

    def tell(done: int, n: int) -> None:
        if terminal:
            print(f"\r{label}: {done} of {n}\033[K", end="" if done < n else "\n", file=sys.stderr, flush=True)

    print(f"{label} ...", end="" if terminal else "\n", file=sys.stderr, flush=True)
    n = precompile.compile_all(tell=tell)
    precompile.are_compiled()  # loads them
    return n


class Ticker:
    """Progress on standard error, one line drawn anew ten times a second; in a log, a line every ten seconds."""

    def __init__(self, enabled: bool | None, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._enabled = self._terminal if enabled is None else enabled
        self._interval = 0.1 if self._terminal else 10.0
        self._start = self._drawn = time.monotonic()
        self._rows_at_start: int | None = None
        self._open = False

    def begin(self) -> None:
        """Say why nothing moves yet."""
        if self._enabled and self._terminal:
            self._stream.write("\rwaiting for the first rows ...\033[K")
            self._stream.flush()
            self._open = True

    def show(self, rows: int, share: float | None, note: Callable[[], str] = str) -> None:
        """This many rows are done. ``note`` is only asked when it is shown."""
        if self._rows_at_start is None:  # the first chunk may be slow: a pipe starts late, `predict` compiles kernels
            self._rows_at_start, self._start = rows, time.monotonic()
        now = time.monotonic()
        if self._enabled and now - self._drawn >= self._interval:
            self._drawn = now
            self._draw(rows, share, note())

    def _draw(self, rows: int, share: float | None, note: str) -> None:
        rate = (rows - (self._rows_at_start or 0)) / max(time.monotonic() - self._start, 1e-9)
        part = f" ({min(share, 1.0):.0%} read)" if share is not None else ""
        line = f"{rows:,} rows{part}  {rate:,.0f} rows/s  {note}".rstrip()
        self._stream.write(f"\r{line}\033[K" if self._terminal else f"{line}\n")
        self._stream.flush()
        self._open = self._terminal

    def close(self) -> None:
        """Leave the line, so that what follows starts on a new one."""
        if self._open:
            self._stream.write("\r\033[K")
            self._stream.flush()
            self._open = False


def format_number(value: float) -> str:
    """Four digits that matter; a dash for a score that does not exist.

    >>> [format_number(value) for value in (0.91237, 1234.6, 12.3456, 0.0000123, float("nan"))]
    ['0.9124', '1,235', '12.35', '1.23e-05', '–']
    """
    if math.isnan(value):
        return "–"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}" if size < 1e9 else f"{value:.3e}"
    if 0 < size < 0.001:
        return f"{value:.3g}"
    return f"{value:.{max(0, min(4, 3 - math.floor(math.log10(size)) if size >= 1 else 4))}f}"


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as what they hold; the first to the left, all others to the right.

    >>> print(format_table([["", "RMSE"], ["forest", "1.5"], ["mean", "12.0"]]))
            RMSE
    forest   1.5
    mean    12.0
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def draw_bars(values: Sequence[float], low: float, high: float, width: int = 40) -> str:
    """A curve as a line of bars between low and high.

    >>> draw_bars([0.0, 0.5, 1.0], 0.0, 1.0)
    '▁▅█'
    """
    n = len(values)
    if n > width:
        groups = [values[n * k // width : n * (k + 1) // width] for k in range(width)]
        values = [sum(group) / len(group) for group in groups]
    size = high - low or 1.0
    steps = [0 if math.isnan(v) else round((len(_BARS) - 1) * min(max((v - low) / size, 0.0), 1.0)) for v in values]
    return "".join(_BARS[step] for step in steps)


def check_picture(path: Path, option: str) -> None:
    """An error for a picture that could not be drawn at the end, before anything is read."""
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"{option} {path}: the name of a .png, .svg or .pdf file is expected")


def draw_curves(
    curves: dict[str, list[tuple[int, float]]],
    score: str,
    window: int,
    title: str,
    path: Path,
    floor: tuple[float, str] | None = None,
) -> None:
    """A picture of each model's score along the stream, and of a score that none can beat, with its name."""
    try:
        import matplotlib
    except ImportError as error:
        raise NoMatplotlib(error) from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for k, (name, curve) in enumerate(curves.items()):
        rows, values = zip(*curve, strict=True) if curve else ((), ())
        ax.plot(
            rows,
            values,
            color=COLOURS[k % len(COLOURS)],
            label=name,
            linewidth=2.0 if k == 0 else 1.3,
            zorder=3 - 0.1 * k,
        )
    if floor is not None:
        ax.axhline(floor[0], color="#999999", linewidth=0.8)
        place = (0.995, floor[0])
        ax.annotate(floor[1], place, xycoords=("axes fraction", "data"), va="bottom", ha="right", color="#777777")
    ax.set(xlabel="rows predicted", ylabel=f"{score} over the last {window:,} rows", title=title)
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    if len(curves) > 1:
        ax.legend(frameon=False, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # a format that matplotlib does not know
        raise CommandError(f"cannot write the picture {path}: {error}") from None
    finally:
        plt.close(figure)
