"""The runner: jobs with keys and seeds, and finished jobs in CSV files, so that an interrupted run can be resumed.

An experiment is a module with

- ``NAME``, ``SETTINGS`` and ``MEASURES``: its name, and the columns of its table besides dataset, method and repetition;
- ``TIMED``: whether jobs use all cores and are timed, so that they must run one at a time;
- ``plan(scale)``: returns its jobs;
- ``measure(job, run)``: runs a job and returns its measures.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import sklearn
from threadpoolctl import threadpool_limits

import bspforest

from .methods import warm_up


def make_seed(*parts: Any) -> int:
    """Return a seed that is a function of ``parts``."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:4], "big")


@dataclass(frozen=True)
class Scale:
    """The size of a run: the number of trees per forest and of repetitions; experiments also choose their settings by it."""

    name: str
    trees: int
    repetitions: int

    @property
    def full(self) -> bool:
        return self.name == "full"


FULL = Scale("full", trees=100, repetitions=16)
QUICK = Scale("quick", trees=20, repetitions=2)


@dataclass(frozen=True)
class Job:
    """One repetition of one method in one setting.

    ``cost`` is an estimate of its time in seconds, which orders the jobs and gives the first estimate of the time left.
    """

    experiment: str
    dataset: str
    method: str
    setting: tuple[tuple[str, Any], ...]
    repetition: int
    cost: float = 1.0

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(map(str, (self.dataset, self.method, *(value for _, value in self.setting), self.repetition)))

    @property
    def seed(self) -> int:
        return make_seed(self.experiment, *self.key)

    @property
    def data_seed(self) -> int:
        """The seed for the rows, shared by all methods and settings, which are compared on the same rows."""
        return make_seed(self.dataset, self.repetition)

    def __getitem__(self, name: str) -> Any:
        return dict(self.setting)[name]

    def __str__(self) -> str:
        setting = " ".join(f"{name}={value}" for name, value in self.setting)
        return f"{self.experiment}: {self.dataset} {self.method} {setting} #{self.repetition}"


class Table:
    """The finished jobs of an experiment, in a CSV file with one line per job."""

    def __init__(self, path: Path, settings: Iterable[str], measures: Iterable[str]) -> None:
        self.path = path
        self.key_columns = ("dataset", "method", *settings, "repetition")
        self.columns = (*self.key_columns, "seed", *measures, "seconds")
        self.rows: dict[tuple[str, ...], dict[str, str]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        """Read the complete lines; remove an incomplete last line, left by a run that was killed."""
        raw = self.path.read_bytes()
        complete = raw[: raw.rfind(b"\n") + 1]
        if len(complete) < len(raw):
            with self.path.open("r+b") as file:
                file.truncate(len(complete))
        lines = csv.reader(io.StringIO(complete.decode()))
        header = next(lines, None)
        if header is None:
            return
        if tuple(header) != self.columns:
            raise ValueError(f"{self.path} has other columns than this version writes: move it away to start over")
        for values in lines:
            row = dict(zip(self.columns, values, strict=True))
            self.rows[tuple(row[name] for name in self.key_columns)] = row

    def append(self, job: Job, measures: dict[str, Any], seconds: float) -> None:
        """Append a finished job to the file."""
        unknown = set(measures) - set(self.columns)
        if unknown:
            raise ValueError(f"{job.experiment} measures {sorted(unknown)}, but its table has no columns for them")
        values = dict(zip(self.key_columns, job.key, strict=True))
        values |= {"seed": str(job.seed), "seconds": f"{seconds:.3f}"}
        values |= {name: f"{value:.8g}" if isinstance(value, float) else str(value) for name, value in measures.items()}
        self.rows[job.key] = values
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        if fresh:
            lines.writerow(self.columns)
        lines.writerow([values.get(name, "") for name in self.columns])
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())

    def __contains__(self, job: Job) -> bool:
        return job.key in self.rows


class ProgressReporter:
    """Report progress on standard error, with an estimate of the time left from the costs of the jobs and past times."""

    def __init__(self, jobs: list[Job], done: int, workers: int) -> None:
        self.total, self.done = len(jobs) + done, done
        self.left = sum(job.cost for job in jobs)
        self.workers = workers
        self.cost = self.seconds = 0.0
        self.shown = -1e9

    def advance(self, job: Job, seconds: float) -> None:
        self.done += 1
        self.left -= job.cost
        self.cost += job.cost
        self.seconds += seconds
        self.show(job)

    def show(self, job: Job) -> None:
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self.shown < (0.2 if terminal else 15.0) and self.done < self.total:
            return
        self.shown = now
        left = self.left * (self.seconds / self.cost if self.cost else 1.0) / self.workers
        line = f"{self.done:,}/{self.total:,} jobs, about {left / 60:.0f} min left  ({job})"
        end = "\n" if not terminal or self.done == self.total else ""
        print(f"\r{line}\033[K" if terminal else line, end=end, file=sys.stderr, flush=True)


@dataclass
class Run:
    """A folder of results, and how to run jobs."""

    folder: Path
    scale: Scale
    n_jobs: int = 2
    data_home: str | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._tables: dict[str, Table] = {}

    def table(self, experiment: ModuleType) -> Table:
        """Return the table of an experiment."""
        return self.open_table(experiment.NAME, experiment.SETTINGS, experiment.MEASURES)

    def open_table(self, name: str, settings: Iterable[str], measures: Iterable[str]) -> Table:
        """Return the table with this name, read from its file at the first call."""
        if name not in self._tables:
            self._tables[name] = Table(self.folder / f"{name}.csv", settings, measures)
        return self._tables[name]

    def missing(self, experiment: ModuleType) -> list[Job]:
        table = self.table(experiment)
        return [job for job in experiment.plan(self.scale) if job not in table]

    def record_provenance(self) -> None:
        """Record versions and commit in ``run.json``; raise an error if the folder has results of another scale."""
        path = self.folder / "run.json"
        record: dict[str, Any]
        record = json.loads(path.read_text()) if path.exists() else {"scale": asdict(self.scale), "machines": []}
        if record["scale"] != asdict(self.scale):
            raise SystemExit(
                f"{self.folder} has results of another scale, {record['scale']}, not {asdict(self.scale)}: "
                "choose another folder with --results, or move it away"
            )
        machine = describe_machine()
        if machine not in record["machines"]:
            record["machines"].append(machine)
        commit = find_commit()
        if commit and commit not in record.setdefault("commits", []):
            record["commits"].append(commit)
        path.write_text(json.dumps(record, indent=1) + "\n")

    def execute(self, experiments: list[ModuleType], methods: Collection[str] = ()) -> list[tuple[Job, Exception]]:
        """Run the missing jobs, of all methods or of ``methods``, and return those that failed with their errors."""
        self.record_provenance()
        # With two jobs at a time, multithreaded linear algebra in each makes them six times as slow.
        threadpool_limits(1)
        warm_up()
        failed: list[tuple[Job, Exception]] = []
        for experiment in experiments:
            planned = [job for job in experiment.plan(self.scale) if not methods or job.method in methods]
            if not planned:
                continue
            jobs = [job for job in planned if job not in self.table(experiment)]
            done = len(planned) - len(jobs)
            if not jobs:
                print(f"{experiment.NAME}: all {done:,} jobs are finished", file=sys.stderr)
                continue
            # Run the first repetitions of cheap jobs first, so that an early stop still leaves useful results.
            jobs.sort(key=lambda job: job.cost * (1 + job.repetition))
            workers = 1 if experiment.TIMED else self.n_jobs
            minutes = sum(job.cost for job in jobs) / workers / 60
            print(
                f"{experiment.NAME}: {len(jobs):,} jobs to run, {done:,} finished, about {minutes:.0f} min",
                file=sys.stderr,
            )
            failed += self._execute_jobs(experiment, jobs, ProgressReporter(jobs, done, workers), workers)
        return failed

    def _execute_jobs(
        self, experiment: ModuleType, jobs: list[Job], reporter: ProgressReporter, workers: int
    ) -> list[tuple[Job, Exception]]:
        table = self.table(experiment)
        failed: list[tuple[Job, Exception]] = []

        def finish(job: Job, result: Callable[[], tuple[dict[str, Any], float]]) -> None:
            try:
                measures, seconds = result()
            except Exception as error:  # one failure must not stop a run of hours
                print(f"\n{job} failed: {type(error).__name__}: {error}", file=sys.stderr)
                failed.append((job, error))
                return
            table.append(job, measures, seconds)
            reporter.advance(job, seconds)

        if workers == 1:
            for job in jobs:
                finish(job, lambda job=job: self._execute_job(experiment, job))  # type: ignore[misc]
            return failed
        # Threads are enough, because the kernels of both kinds of forests release the GIL.
        with ThreadPoolExecutor(workers) as pool:
            running: dict[Future, Job] = {}
            todo = iter(jobs)
            try:
                while True:
                    while len(running) < workers and (following := next(todo, None)) is not None:
                        running[pool.submit(self._execute_job, experiment, following)] = following
                    if not running:
                        return failed
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        finish(running[future], future.result)
                        del running[future]
            except KeyboardInterrupt:
                print("\nwaiting for running jobs to finish ...", file=sys.stderr)
                for future, job in running.items():
                    if job not in table:  # unless the interrupt came after it was recorded
                        finish(job, future.result)
                raise

    def _execute_job(self, experiment: ModuleType, job: Job) -> tuple[dict[str, Any], float]:
        started = time.perf_counter()
        measures = experiment.measure(job, self)
        return measures, time.perf_counter() - started


def find_commit() -> str | None:
    """Return the current commit; None outside a repository."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "rev-parse", "HEAD"]
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    return None


def describe_machine() -> dict[str, Any]:
    """Return the versions and hardware that results may depend on."""
    try:
        peer = {"lightgbm": version("lightgbm")}
    except PackageNotFoundError:
        peer = {}
    return {
        "bspforest": bspforest.__version__,
        "scikit-learn": sklearn.__version__,
        **peer,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
