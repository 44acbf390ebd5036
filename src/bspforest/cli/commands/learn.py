"""``bspforest learn``: learn a stream into a model file, with checkpoints, so that no row is lost or learned twice."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ... import BSPForestClassifier, BSPForestRegressor
from ...replacing import lock_model, remove_leftovers
from ..cluster import move_to_cluster, open_cluster
from ..data.arrow import pa
from ..data.column_kinds import NUMBER, TEXT
from ..data.hints import check_column_exists
from ..data.stream import Chunk, Stream
from ..data.stream_setup import open_known_stream, open_new_stream
from ..data.target import Target, parse_classes
from ..data_arguments import make_data_options
from ..errors import CommandError, UsageError
from ..forest_arguments import check_jobs, get_arguments, make_parameters
from ..formatting import format_count
from ..model.checkpoint import Checkpoints, ReplacedError
from ..model.record import KEY, Record, is_compressed, load_model
from ..output_files import check_replaceable
from ..progress import RowProgress, compile_kernels
from ..signals import defer_interrupts
from ..terminal import print_errors, print_lines

CHUNK_ROWS = 1_000
CHECKPOINT_SECONDS = 60.0
FRACTIONS = "Classes are not whole numbers: in Python, the model uses their indices as labels"


class Learner:
    """A forest, the stream it learns, and the record saved beside the forest.

    Attributes
    ----------
    n_learned : int
        Rows learned by this run.
    unsaved : bool
        Whether rows were learned since the last save.
    failed : bool
        Whether learning a chunk failed, so that it is not known how many of its rows were learned.
    extra : dict
        The record as of the last row learned, for the model file.
    """

    def __init__(self, forest: Any, stream: Stream, target: Target, record: Record) -> None:
        self.forest, self.stream, self.target, self.record = forest, stream, target, record
        self.n_learned = 0
        self.unsaved = False
        self.failed = False
        self.extra: dict[str, Any] = {}

    def learn(self) -> int:
        """Learn the next chunk and return its number of rows."""
        chunk = self.stream.next(self.record.chunk_rows)
        if chunk is None:
            return 0
        with defer_interrupts():  # rows are learned and recorded, or neither
            self.failed = True
            try:
                self._learn(chunk)
            except ValueError:  # the chunk was refused before anything changed
                self.failed = False
                raise
            self.extra = self.record.to_extra(self.stream)
            self.n_learned += len(chunk)
            self.unsaved = True
            self.failed = False
        return len(chunk)

    def _learn(self, chunk: Chunk) -> None:
        key = self.record.key
        keys = None if key is None else [text or None for text in chunk.kept[key].to_pylist()]
        if self.target.classes is None:
            self.forest.partial_fit(chunk.table, chunk.y, keys=keys)
        else:
            assert chunk.y is not None
            self._learn_labels(chunk.table, self.target.decode(chunk.y), keys)

    def _learn_labels(self, X: pa.Table, y: np.ndarray, keys: list[str | None] | None) -> None:
        """Learn rows with labels of classes, some of which may be new."""
        classes = self.target.labels
        if not hasattr(self.forest, "classes_"):
            self.forest.partial_fit(X, y, classes=classes, keys=keys)
        elif len(classes) == self.forest.n_classes_:
            self.forest.partial_fit(X, y, keys=keys)
        else:
            places = np.sort(self.target.find_places(self.forest.n_classes_))
            if self.target.has_fractions and self.forest.classes_.dtype.kind == "f":
                print_errors(FRACTIONS)
            self.forest._add_classes(classes, places, X, y, keys)

    def _get_local(self) -> Any:
        """Return the forest as it is saved: in this process."""
        return self.forest.to_local() if hasattr(self.forest, "to_local") else self.forest

    def learn_all(self, checkpoints: Checkpoints, progress: RowProgress) -> None:
        """Learn the whole stream, with checkpoints, and save what is learned however it ends.

        If learning itself fails, as when memory runs out, the last checkpoint is kept to resume from.
        """
        progress.begin()
        try:
            while n := self.learn():
                progress.show(self.stream.n_rows, self.stream.source.share_read)
                if checkpoints.due(n):
                    with defer_interrupts():
                        checkpoints.start(self._get_local(), self.extra)
                        self.unsaved = False
        finally:
            with defer_interrupts():
                progress.close()
                settled = checkpoints.settle()
                if not self.failed and (self.unsaved or not settled):
                    checkpoints.finish(self._get_local(), self.extra)
                    self.unsaved = False


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    _check_model_path(options, options.model.exists())
    with lock_model(options.model, wait=options.wait) as lock:  # to the end: nobody else changes the model meanwhile
        return _learn(options, lock)


def _learn(options: argparse.Namespace, lock: Any) -> int:
    """Learn, with the lock on the model."""
    exists = options.model.exists()
    _check_model_path(options, exists)
    remove_leftovers(options.model)  # of a process that was killed
    seconds = options.checkpoint_seconds or (None if options.checkpoint_rows else CHECKPOINT_SECONDS)
    continues = exists and not options.overwrite
    checkpoints = Checkpoints(
        options.model,
        options.checkpoint_rows,
        seconds,
        overwrite=exists,
        compress=(continues and is_compressed(options.model)) if options.compress is None else options.compress,
        lock=lock,
    )
    learner = _continue(options) if continues else _begin(options)
    compile_kernels()
    begun = time.perf_counter()
    with open_cluster(options.dask) as client, _terminable() as terminated:
        if client is not None:
            learner.forest = move_to_cluster(learner.forest, client)
        try:
            learner.learn_all(checkpoints, RowProgress(options.progress))
        except KeyboardInterrupt:
            print_errors(f"bspforest: interrupted. {_describe_saved(learner, checkpoints, options)}")
            return 128 + terminated[0] if terminated else 130
        except ReplacedError:
            raise
        except Exception:
            print_errors(f"bspforest: {_describe_saved(learner, checkpoints, options)}")
            raise
    _report(learner, options, time.perf_counter() - begun)
    return 0


def _check_model_path(options: argparse.Namespace, exists: bool) -> None:
    """Refuse a model file that could not be written, before any data is read."""
    path = options.model
    check_replaceable(path, "--model")
    if exists and not (options.resume or options.append or options.overwrite):
        raise UsageError(
            f"{path} exists already: --resume continues with it, --append adds other data to it, "
            "--overwrite starts anew"
        )
    if not exists and options.append:
        raise UsageError(f"--append: there is no model {path} to add to")
    if options.target is None and (options.overwrite or not exists):
        why = f" ({path} does not exist yet)" if options.resume else ""
        raise UsageError(f"a new model needs --target COL, the column to predict{why}")


def _begin(options: argparse.Namespace) -> Learner:
    """Return a new forest at the beginning of a stream."""
    parameters = make_parameters(options)
    stream, notes = open_new_stream(make_data_options(options), options.target, options.task, options.classes)
    target = stream.target
    assert target is not None
    if target.has_fractions:
        notes.append(FRACTIONS)
    print_lines(*notes)
    kind = BSPForestRegressor if target.classes is None else BSPForestClassifier
    forest = kind(**parameters, hash_keys=options.hash_keys)
    record = Record(
        columns=stream.schema.to_json(),
        target=target.to_json(),
        dropped=list(options.drop),
        chunk_rows=options.chunk_rows or CHUNK_ROWS,
        sources=[_describe_source(options)],
        na_values=list(options.na_values),
        key=options.key,
    )
    return Learner(forest, stream, target, record)


# ----------------------------------------------------------------------------------------------------------------------
# Continuing


def _continue(options: argparse.Namespace) -> Learner:
    """Return a saved forest, and the stream at the first row it has not learned."""
    forest, record = load_model(options.model)
    schema, target = record.make_schema(), record.make_target()
    _check_same(options, forest, record, target, schema.kinds)
    forest.set_params(n_jobs=options.jobs)
    record.dropped += [name for name in options.drop if name not in record.dropped]
    if options.append:
        _check_not_learned(options, record)
        record.sources.append(_describe_source(options))
    how = make_data_options(options, record.na_values)
    stream = open_known_stream(how, schema, target, ignored=record.list_ignored(), keep=record.list_keys())
    if options.resume:
        _skip_learned(stream, record, options)
    return Learner(forest, stream, target, record)


def _check_same(
    options: argparse.Namespace, forest: Any, record: Record, target: Target, kinds: dict[str, str]
) -> None:
    """Refuse options that do not fit the saved forest."""
    check_jobs(options.jobs)
    saved = {name: value for name, value in get_arguments(forest.get_params()).items() if name != "jobs"}
    saved |= {"target": target.name, "task": target.task, "chunk_rows": record.chunk_rows, "key": record.key}
    given: dict[str, Any] = {name: getattr(options, name) for name in saved}
    if options.na_values:
        saved["na_values"], given["na_values"] = sorted(record.na_values), sorted(options.na_values)
    if options.classes is not None and target.classes is not None:
        saved["classes"], given["classes"] = target.classes, parse_classes(target, options.classes)
        target.is_closed = True
    for name, value in given.items():
        if value is not None and value != saved[name]:
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} {_format(value)}: {options.model} was learned with {option} {_format(saved[name])}, which "
                "cannot be changed; omit the option, or start anew with --overwrite"
            )
    for name in options.drop:
        if name in kinds or name == target.name:
            raise UsageError(
                f"--drop {name}: {options.model} was learned with this column, which cannot be changed; omit the option, or "
                "start anew with --overwrite"
            )
    _check_kinds(options, {**kinds, target.name: target.kind}, record.dropped)


def _check_kinds(options: argparse.Namespace, kinds: dict[str, str], dropped: list[str]) -> None:
    """Refuse to read a column as another kind than in the saved model."""
    for kind in (TEXT, NUMBER):
        for name in getattr(options, kind):
            check_column_exists(name, [*kinds, *dropped], str(options.model))
            if name not in dropped and kinds[name] != kind:
                raise UsageError(
                    f"--{kind} {name}: {options.model} was learned with {name!r} as {kinds[name]}, which cannot be "
                    "changed; omit the option, or start anew with --overwrite"
                )


def _format(value: Any) -> str:
    return (",".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def _describe_source(options: argparse.Namespace) -> dict[str, Any]:
    """Return the record of DATA before any of its rows are learned."""
    return {"name": options.data} | ({"path": os.path.realpath(options.data)} if options.data != "-" else {})


def _check_not_learned(options: argparse.Namespace, record: Record) -> None:
    """Refuse to append data that was learned before. A new file under an old name is other data."""
    for source in record.sources:
        if options.data == "-" or source.get("path", os.path.realpath(source["name"])) != os.path.realpath(
            options.data
        ):
            continue
        if "first" in source:
            n, crc = source["first"]
            how = make_data_options(options, record.na_values)
            known = record.make_schema(), record.make_target()
            stream = open_known_stream(how, *known, ignored=record.list_ignored(), keep=record.list_keys())
            stream.quiet = True
            if not stream.skip_to(n) or list(stream.crc) != crc:
                continue
        raise UsageError(
            f"--append {options.data}: the model has learned {format_count(source['rows'], 'row')} of it already"
            + (f"; --resume continues after {_them(source['rows'])}" if source is record.sources[-1] else "")
        )


def _skip_learned(stream: Stream, record: Record, options: argparse.Namespace) -> None:
    """Pass over the rows that are learned already, and check that they are the same."""
    current = record.sources[-1]
    wanted = current["rows"]
    hint = f"{options.data} is not what {options.model} was learning ({current['name']}); --append adds other data"
    stream.quiet = True
    n, crc = current.get("first", (0, None))
    if n and stream.skip_to(n) and list(stream.crc) == crc:
        hint = (
            f"its first {'row is' if n == 1 else f'{n:,} rows are'}; if the file was changed since, or its last line was incomplete then, start anew "
            "with --overwrite"
        )
    if not stream.skip_to(wanted):
        raise CommandError(
            f"{stream.source.name} has {format_count(stream.n_rows, 'row')}, but {wanted:,} were learned already: {hint}"
        )
    if list(stream.crc) != current["crc"]:
        first = "first row" if wanted == 1 else f"first {wanted:,} rows"
        differ = "is not the one that was" if wanted == 1 else "are not those that were"
        raise CommandError(f"the {first} of {stream.source.name} {differ} learned: {hint}")
    stream.quiet = False
    print_lines(f"Continuing after {format_count(wanted, 'row')}")


# ----------------------------------------------------------------------------------------------------------------------
# Interruptions, and the report at the end


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does, and yield a list of those that arrived."""
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return

    def stop(number: int, frame: Any) -> None:
        arrived.append(number)
        signal.raise_signal(signal.SIGINT)

    interrupt = signal.getsignal(signal.SIGINT)
    if not callable(interrupt):  # a shell starts background processes with SIGINT ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ending = [signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup leaves it
        ending.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in ending}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.signal(signal.SIGINT, interrupt)


def _describe_saved(learner: Learner, checkpoints: Checkpoints, options: argparse.Namespace) -> str:
    """Describe what this run has saved in the model file."""
    sources = checkpoints.saved[KEY]["sources"] if checkpoints.saved else learner.record.sources
    rows = sources[-1].get("rows", 0)  # before the first save, only a resumed run has any
    if rows:
        name = learner.stream.source.name
        are = "is" if rows == 1 else "are"
        saved = f"{format_count(rows, 'row')} of {name} {are} learned and saved in {options.model}"
        return f"{saved}; --resume continues after {_them(rows)}."
    unchanged = f"{options.model} is unchanged" if options.model.exists() else "there is no model file"
    return f"Nothing was saved: {unchanged}."


def _them(n: int) -> str:
    return "it" if n == 1 else "them"


def _describe_classes(learner: Learner) -> list[str]:
    if not learner.stream.n_new_classes:
        return []
    classes = format_count(len(learner.target.classes or ()), "class")
    return [f"{classes}: {learner.target.list_classes()}"]


def _report(learner: Learner, options: argparse.Namespace, seconds: float) -> None:
    skipped = f", {format_count(learner.stream.n_skipped, 'malformed row')} skipped" if learner.stream.n_skipped else ""
    if not learner.n_learned:
        print_lines(f"No new rows in {learner.stream.source.name}{skipped}")
        return
    forest, size = learner.forest, options.model.stat().st_size
    print_lines(
        f"{format_count(learner.n_learned, 'row')} learned in {seconds:.1f} seconds{skipped}; "
        f"{format_count(forest.n_samples_, 'row')} held by {format_count(forest.n_estimators, 'tree')}",
        *_describe_classes(learner),
        f"Model: {options.model} ({size / 1e6:,.1f} MB)",
    )
