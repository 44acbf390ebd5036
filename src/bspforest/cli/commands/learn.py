"""``bspforest learn``: a stream into a model file, with checkpoints, so that no row is lost or learned twice."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import BSPForestClassifier, BSPForestRegressor
from ...engine.interrupts import defer_interrupts
from ...persistence.atomic_file import remove_stale
from ..data.column_kinds import NUMBER, TEXT
from ..data.stream import Chunk, Stream, check_known, continue_stream, start_stream
from ..data.target import Target, parse_classes
from ..errors import CommandError, UsageError
from ..forest_arguments import FOREST, check_jobs, data_options, make_parameters
from ..model.checkpoint import Checkpoints, ReplacedError
from ..model.record import KEY, Record, load_model
from ..progress import RowProgress, compile_kernels

CHUNK = 1_000
SECONDS = 60.0


class Learner:
    """A forest, the stream it learns, and what goes into the model file beside it."""

    def __init__(self, forest: Any, stream: Stream, target: Target, record: Record) -> None:
        self.forest, self.stream, self.target, self.record = forest, stream, target, record
        self.n_learned = 0
        self.unsaved = False
        self.failed = False  # while learning a chunk, of which no one knows how much is learned
        self.extra: dict[str, Any] = {}

    def learn(self) -> int:
        """Learn the next chunk; how many rows it had."""
        chunk = self.stream.next(self.record.chunk_rows)
        if chunk is None:
            return 0
        with defer_interrupts():  # rows are learned and noted as such, or neither
            self.failed = True
            try:
                self._learn(chunk)
            except ValueError:  # the chunk is refused, before anything is changed
                self.failed = False
                raise
            self.extra = self.record.to_extra(self.stream)
            self.n_learned += len(chunk)
            self.unsaved = True
            self.failed = False
        return len(chunk)

    def _learn(self, chunk: Chunk) -> None:
        if self.target.classes is None:
            self.forest.partial_fit(chunk.X, chunk.y)
        else:
            labels, first = self.target.labels, not hasattr(self.forest, "classes_")
            self.forest.partial_fit(chunk.X, labels[chunk.y], classes=labels if first else None)

    def learn_all(self, checkpoints: Checkpoints, progress: RowProgress) -> None:
        """Learn all there is, with checkpoints on the way. However it ends, what is learned is saved.

        Unless learning itself failed, for want of memory: then the last checkpoint stays, to be resumed from.
        """
        progress.begin()
        try:
            while n := self.learn():
                progress.show(self.stream.n_rows, self.stream.source.share_read)
                if checkpoints.due(n):
                    with defer_interrupts():
                        checkpoints.start(self.forest, self.extra)
                        self.unsaved = False
        finally:
            with defer_interrupts():
                progress.close()
                settled = checkpoints.settle()
                if not self.failed and (self.unsaved or not settled):
                    checkpoints.finish(self.forest, self.extra)
                    self.unsaved = False


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    exists = options.model.exists()
    _check_place(options, exists)
    remove_stale(options.model.absolute().parent)  # what a killed writer left, even if there is nothing new to save
    seconds = options.checkpoint_seconds or (None if options.checkpoint_rows else SECONDS)
    checkpoints = Checkpoints(options.model, options.checkpoint_rows, seconds, overwrite=exists)
    learner = _continue(options) if exists and not options.overwrite else _begin(options)
    compile_kernels()
    begun = time.perf_counter()
    with _terminable() as terminated:
        try:
            learner.learn_all(checkpoints, RowProgress(options.progress))
        except KeyboardInterrupt:
            print(f"bspforest: interrupted. {_describe_saved(learner, checkpoints, options)}", file=sys.stderr)
            return 128 + signal.SIGTERM if terminated else 130
        except ReplacedError:
            raise
        except Exception:
            print(f"bspforest: {_describe_saved(learner, checkpoints, options)}", file=sys.stderr)
            raise
    _describe(learner, options, time.perf_counter() - begun)
    return 0


def _check_place(options: argparse.Namespace, exists: bool) -> None:
    """Errors about the model file, before anything is read."""
    path = options.model
    if exists and path.is_dir():
        raise UsageError(f"--model {path} is a folder: the name of a file is expected")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--model {path}: there is no folder {path.parent}")
    if exists and not (options.resume or options.append or options.overwrite):
        raise UsageError(
            f"{path} is there already: --resume goes on with it, --append adds other data to it, "
            "--overwrite begins anew"
        )
    if not exists and options.append:
        raise UsageError(f"--append: there is no model {path} to add to")


def _begin(options: argparse.Namespace) -> Learner:
    """A new forest at the beginning of a stream."""
    parameters = make_parameters(options)
    stream, notes = start_stream(data_options(options), options.target, options.task, options.classes)
    target = stream.target
    assert target is not None
    if target.has_fractions:
        notes.append("Classes are not whole numbers: in Python, the model knows them by their index")
    print("\n".join(notes), flush=True)
    forest = (BSPForestRegressor if target.classes is None else BSPForestClassifier)(**parameters)
    record = Record(
        columns=stream.encoder.to_json(),
        target=target.to_json(),
        dropped=list(options.drop),
        chunk_rows=options.chunk_rows or CHUNK,
        sources=[_name_source(options)],
    )
    return Learner(forest, stream, target, record)


# ----------------------------------------------------------------------------------------------------------------------
# Going on


def _continue(options: argparse.Namespace) -> Learner:
    """A saved forest, and the stream at the first row it has not learned."""
    forest, record = load_model(options.model, to_change=True)
    encoder, target = record.make_encoder(), record.make_target()
    _check_same(options, forest, record, target, encoder.kinds)
    forest.set_params(n_jobs=options.jobs)
    if options.append:
        _check_other(options, record)
        record.sources.append(_name_source(options))
    stream = continue_stream(data_options(options), encoder, target, ignored=tuple(record.dropped))
    if options.resume:
        _skip_learned(stream, record, options)
    return Learner(forest, stream, target, record)


def _check_same(
    options: argparse.Namespace, forest: Any, record: Record, target: Target, kinds: dict[str, str]
) -> None:
    """An error if the command asks for another forest than the one that was saved."""
    check_jobs(options)
    saved = {argument: forest.get_params()[name] for argument, (name, _) in FOREST.items() if argument != "jobs"}
    saved |= {"target": target.name, "task": target.task, "chunk_rows": record.chunk_rows}
    given: dict[str, Any] = {name: getattr(options, name) for name in saved}
    if options.drop:
        saved["drop"], given["drop"] = sorted(record.dropped), sorted(options.drop)
    if options.classes is not None and target.classes is not None:
        saved["classes"], given["classes"] = target.classes, parse_classes(target, options.classes)
    for name, value in given.items():
        if value is not None and value != saved[name]:
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} {_show(value)}: {options.model} was learned with {option} {_show(saved[name])}, which "
                "cannot be changed; leave the option out, or --overwrite begins anew"
            )
    _check_kinds(options, {**kinds, target.name: target.kind}, record.dropped)


def _check_kinds(options: argparse.Namespace, kinds: dict[str, str], dropped: list[str]) -> None:
    """An error if a column is to be read as another kind than the one that was saved."""
    for kind in (TEXT, NUMBER):
        for name in getattr(options, kind):
            check_known(name, [*kinds, *dropped], str(options.model))
            if name not in dropped and kinds[name] != kind:
                raise UsageError(
                    f"--{kind} {name}: {options.model} was learned with {name!r} as {kinds[name]}, which cannot be "
                    "changed; leave the option out, or --overwrite begins anew"
                )


def _show(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _name_source(options: argparse.Namespace) -> dict[str, Any]:
    """What is noted of DATA before any of its rows are."""
    return {"name": options.data} | ({"path": os.path.realpath(options.data)} if options.data != "-" else {})


def _check_other(options: argparse.Namespace, record: Record) -> None:
    """An error if data is to be appended that was learned before: each row once. A new file under an old name is other data."""
    for source in record.sources:
        if options.data == "-" or source.get("path", os.path.realpath(source["name"])) != os.path.realpath(
            options.data
        ):
            continue
        if "first" in source:
            n, crc = source["first"]
            stream = continue_stream(
                data_options(options), record.make_encoder(), record.make_target(), ignored=tuple(record.dropped)
            )
            stream.quiet = True
            stream.next(n, learn=False)
            if (stream.n_rows, list(stream.crc)) != (n, crc):
                continue
        raise UsageError(
            f"--append {options.data}: the model has learned {source['rows']:,} rows of it already"
            + ("; --resume goes on after them" if source is record.sources[-1] else "")
        )


def _skip_learned(stream: Stream, record: Record, options: argparse.Namespace) -> None:
    """Pass over the rows that are learned, and make sure that they are the same."""
    current = record.sources[-1]
    wanted = current["rows"]
    other = f"{options.data} is not what {options.model} was learning ({current['name']}); --append adds other data"
    stream.quiet = True
    n, crc = current.get("first", (0, None))
    begins = stream.next(n, learn=False) is not None and list(stream.crc) == crc if n else False
    if begins:
        other = f"its first {n:,} are; if it was changed since, or its last line was half written then, --overwrite begins anew"
    while stream.n_rows < wanted:
        if stream.next(min(65_536, wanted - stream.n_rows), learn=False) is None:
            raise CommandError(f"{stream.source.name} has {stream.n_rows:,} rows, and {wanted:,} are learned: {other}")
    if list(stream.crc) != current["crc"]:
        raise CommandError(
            f"the first {wanted:,} rows of {stream.source.name} are not those that were learned: {other}"
        )
    stream.quiet = False
    print(f"Going on after {wanted:,} rows", flush=True)


# ----------------------------------------------------------------------------------------------------------------------
# Ends


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Have SIGTERM do what Ctrl-C does; the list is not empty once it came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def stop(number: int, frame: Any) -> None:
        came.append(number)
        signal.raise_signal(signal.SIGINT)

    interrupt = signal.getsignal(signal.SIGINT)
    if not callable(interrupt):  # a shell starts what runs in the background with Ctrl-C ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)


def _describe_saved(learner: Learner, checkpoints: Checkpoints, options: argparse.Namespace) -> str:
    """What this run has left in the model file; what was there before is not looked at."""
    sources = checkpoints.saved[KEY]["sources"] if checkpoints.saved else learner.record.sources
    rows = sources[-1].get("rows", 0)  # before the first save, only a run that resumes has any
    if rows:
        name = learner.stream.source.name
        return f"{rows:,} rows of {name} are learned and saved in {options.model}; --resume goes on after them."
    return f"Nothing is saved: {f'{options.model} is as it was' if options.model.exists() else 'no model is written'}."


def _describe(learner: Learner, options: argparse.Namespace, seconds: float) -> None:
    skipped = f", {learner.stream.n_skipped:,} malformed rows skipped" if learner.stream.n_skipped else ""
    if not learner.n_learned:
        print(f"Nothing new in {learner.stream.source.name}{skipped}")
        return
    forest, size = learner.forest, options.model.stat().st_size
    print(
        f"{learner.n_learned:,} rows learned in {seconds:.1f} seconds{skipped}; "
        f"{forest.n_samples_:,} rows held by {forest.n_estimators} trees\n"
        f"Model: {options.model} ({size / 1e6:,.1f} MB)"
    )
