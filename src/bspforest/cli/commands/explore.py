"""``bspforest explore``: serve a page on which forests learn a stream in the plane."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np

from ..._magnitude import MAX_MAGNITUDE
from ...explore import STREAMS, ExploreServer, PlaneStream, Session, make_stream
from ...explore.streams import MAX_CLASSES, MAX_ROWS
from ..data_arguments import make_data_options
from ..errors import CommandError, UsageError
from ..forest_arguments import make_parameters
from ..formatting import format_count
from ..parser import BUILT_IN_STREAMS
from ..progress import compile_kernels
from ..terminal import print_lines

if TYPE_CHECKING:
    from ..data.stream import Stream
    from ..data.target import Target

if tuple(STREAMS) != BUILT_IN_STREAMS:
    raise ImportError(f"the parser knows the streams {BUILT_IN_STREAMS}, expected {tuple(STREAMS)}")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    parameters = make_parameters(options)
    stream = make_stream(options.stream or BUILT_IN_STREAMS[0], parameters["random_state"])
    _check(options)
    if options.data is not None:
        stream = _read_stream(options)
    compile_kernels()
    session = Session(stream, n_trees=options.trees, seed=parameters["random_state"], window=parameters["window"])
    try:
        server = ExploreServer(session, options.port)
    except OSError as error:
        raise CommandError(f"cannot listen on port {options.port} of 127.0.0.1: {error.strerror}") from None
    with server:
        print_lines(f"Open {server.url}", "Only this machine can. Ctrl-C stops.")
        if not options.no_browser and _has_browser():
            threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        try:
            with _interrupted_once():
                server.serve_forever()
        except KeyboardInterrupt:
            print_lines("", f"Stopped after {format_count(session.n_arrived, 'row')}. Nothing was saved.")
    return 0


@contextmanager
def _interrupted_once() -> Iterator[None]:
    """Let the first Ctrl-C raise KeyboardInterrupt, and ignore those that follow while the command ends.

    They stay ignored until the process has ended: its last moments are those of the interpreter.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is stop:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _check(options: argparse.Namespace) -> None:
    """Refuse a window that the page does not hold, options that need DATA without it, and DATA without them."""
    if isinstance(options.window, str):
        raise UsageError(f"--window must be a number of rows here, got {options.window}")
    if (options.window or 0) > MAX_ROWS:
        raise UsageError(f"--window must be at most {MAX_ROWS:,}, the rows that the page holds, got {options.window:,}")
    needed = {"--target": options.target, "--columns": options.columns}
    if options.data is None:
        for name, value in {**needed, "--task": options.task, "--classes": options.classes}.items():
            if value is not None:
                raise UsageError(f"{name} is about the columns of DATA, which is missing")
        return
    if options.stream is not None:
        raise UsageError("--stream is for built-in streams; with DATA, the page can choose them, too")
    if None in needed.values():
        raise UsageError("DATA needs --target COL, the column to predict, and --columns A B, two columns of numbers")
    if len({options.target, *options.columns}) < 3:
        raise UsageError("--target and --columns must name three different columns")


def _read_stream(options: argparse.Namespace) -> PlaneStream:
    """Return the rows of DATA without gaps, as many as the page shows."""
    from ..data.stream_setup import open_new_stream

    columns = tuple(options.columns)
    how = make_data_options(options)
    stream, notes = open_new_stream(how, options.target, options.task, options.classes, only=columns)
    assert stream.target is not None
    print_lines(*notes)
    table = _read_rows(stream, columns)
    if not len(table):
        raise CommandError(f"{options.data} has no row with numbers in both {columns[0]!r} and {columns[1]!r}")
    for name, column in zip((*columns, options.target), table.T, strict=True):
        if np.abs(column).max() > MAX_MAGNITUDE:
            raise CommandError(f"column {name!r} has numbers beyond {MAX_MAGNITUDE:g}, which the page cannot show")
    y = table[:, 2]
    classes: tuple[str, ...] = ()
    if stream.target.task == "classification":
        y, classes = _name_classes(y, stream.target)
    name = os.path.basename(options.data) if options.data != "-" else "standard input"
    return PlaneStream(f"file {name}", name, table[:, :2], y, classes, columns, options.target)


def _read_rows(stream: Stream, columns: tuple[str, ...]) -> np.ndarray:
    """Return the first rows that have no gap in the columns: these, and the label."""
    parts, n_gaps = [np.empty((0, 3))], 0
    while sum(map(len, parts)) <= MAX_ROWS and (chunk := stream.next(MAX_ROWS)) is not None:
        assert chunk.y is not None
        numbers = [chunk.table[name].to_numpy().astype(float) for name in columns]
        part = np.column_stack([*numbers, chunk.y])
        is_whole = ~np.isnan(part).any(axis=1)
        n_gaps += int((~is_whole).sum())
        parts.append(part[is_whole])
    if n_gaps:
        print_lines(f"{format_count(n_gaps, 'row')} left out, with a gap in {columns[0]!r} or {columns[1]!r}")
    table = np.concatenate(parts)
    if len(table) > MAX_ROWS:
        print_lines(f"Only the first {format_count(MAX_ROWS, 'row')} are shown")
    return table[:MAX_ROWS]


def _name_classes(codes: np.ndarray, target: Target) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the numbers of the classes that occur, and their names."""
    found, numbers = np.unique(codes.astype(int), return_inverse=True)
    if len(found) > MAX_CLASSES:
        raise CommandError(
            f"the target {target.name!r} has {len(found)} classes, and the page shows at most {MAX_CLASSES}; "
            "for numbers, use --task regression"
        )
    return numbers.astype(float), tuple(str(target.by_code[code]) for code in found)


def _has_browser() -> bool:
    """Return whether a browser has a screen to open on. On a terminal alone, one could take it over."""
    on_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return not sys.platform.startswith("linux") or bool(on_screen)
