"""The runner: jobs with keys and seeds, finished ones kept in CSV files, so that an interrupted run goes on where it stopped.

An experiment is a module with

- ``NAME``, ``SETTINGS`` and ``MEASURES``: its name and the columns of its table beside dataset, method and repetition;
- ``TIMED``: jobs are timed with all cores, so they run one at a time;
- ``plan(scale)``: its jobs;
- ``measure(job, run)``: does a job and returns its measures.
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
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from threadpoolctl import threadpool_limits

from .methods import warm_up


def make_seed(*parts: Any) -> int:
    """A seed that depends on ``parts`` alone."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:4], "big")


@dataclass(frozen=True)
class Scale:
    """How much is run: the number of trees in a forest and of repetitions; each experiment has its own points besides."""

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
    """One cell of a table, once. ``cost`` is a guess of its seconds: it orders the jobs and starts the guess of what is left."""

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
        """The same for all methods and settings, which are compared on the same rows."""
        return make_seed(self.dataset, self.repetition)

    def __getitem__(self, name: str) -> Any:
        return dict(self.setting)[name]

    def __str__(self) -> str:
        setting = " ".join(f"{name}={value}" for name, value in self.setting)
        return f"{self.experiment}: {self.dataset} {self.method} {setting} #{self.repetition}"


class Table:
    """The finished jobs of an experiment: a CSV file that grows by a line a job."""

    def __init__(self, path: Path, settings: Iterable[str], measures: Iterable[str]) -> None:
        self.path = path
        self.key_columns = ("dataset", "method", *settings, "repetition")
        self.columns = (*self.key_columns, "seed", *measures, "seconds")
        self.rows: dict[tuple[str, ...], dict[str, str]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        """Read what is whole; drop a last line that was torn when the run was killed."""
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) < len(raw):
            with self.path.open("r+b") as file:
                file.truncate(len(whole))
        lines = csv.reader(io.StringIO(whole.decode()))
        header = next(lines, None)
        if header is None:
            return
        if tuple(header) != self.columns:
            raise ValueError(f"{self.path} has other columns than this version writes: move it away to begin anew")
        for values in lines:
            row = dict(zip(self.columns, values, strict=True))
            self.rows[tuple(row[name] for name in self.key_columns)] = row

    def append(self, job: Job, measures: dict[str, Any], seconds: float) -> None:
        """Write down a finished job."""
        unknown = set(measures) - set(self.columns)
        if unknown:
            raise ValueError(f"{job.experiment} measures {sorted(unknown)}, which its table has no columns for")
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
    """Says on standard error what is done and guesses the time that is left, from the costs of jobs and their true times."""

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
    """A folder of results, and how jobs are done."""

    folder: Path
    scale: Scale
    n_jobs: int = 2
    data_home: str | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._tables: dict[str, Table] = {}

    def table(self, experiment: ModuleType) -> Table:
        if experiment.NAME not in self._tables:
            path = self.folder / f"{experiment.NAME}.csv"
            self._tables[experiment.NAME] = Table(path, experiment.SETTINGS, experiment.MEASURES)
        return self._tables[experiment.NAME]

    def missing(self, experiment: ModuleType) -> list[Job]:
        table = self.table(experiment)
        return [job for job in experiment.plan(self.scale) if job not in table]

    def record_provenance(self) -> None:
        """Write down in ``run.json`` what this folder was made with; refuse to go on with another scale."""
        path = self.folder / "run.json"
        held: dict[str, Any]
        held = json.loads(path.read_text()) if path.exists() else {"scale": asdict(self.scale), "machines": []}
        if held["scale"] != asdict(self.scale):
            raise SystemExit(
                f"{self.folder} holds results of another scale, {held['scale']}, not {asdict(self.scale)}: "
                "choose another folder with --results, or move it away"
            )
        machine = describe_machine()
        if machine not in held["machines"]:
            held["machines"].append(machine)
        commit = find_commit()
        if commit and commit not in held.setdefault("commits", []):
            held["commits"].append(commit)
        path.write_text(json.dumps(held, indent=1) + "\n")

    def execute(self, experiments: list[ModuleType]) -> list[tuple[Job, Exception]]:
        """Do what is missing; the jobs that failed, with their errors."""
        self.record_provenance()
        # Two jobs at a time, each with linear algebra in as many threads as there are cores: six times as slow.
        threadpool_limits(1)
        warm_up()
        failed: list[tuple[Job, Exception]] = []
        for experiment in experiments:
            jobs = self.missing(experiment)
            done = len(experiment.plan(self.scale)) - len(jobs)
            if not jobs:
                print(f"{experiment.NAME}: all {done:,} jobs are done", file=sys.stderr)
                continue
            # First repetitions of cheap jobs come first: a run that stops early leaves a page worth reading.
            jobs.sort(key=lambda job: job.cost * (1 + job.repetition))
            workers = 1 if experiment.TIMED else self.n_jobs
            guess = sum(job.cost for job in jobs) / workers / 60
            print(f"{experiment.NAME}: {len(jobs):,} jobs to do, {done:,} done, about {guess:.0f} min", file=sys.stderr)
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
            except Exception as error:  # one job must not end a run of hours
                print(f"\n{job} failed: {type(error).__name__}: {error}", file=sys.stderr)
                failed.append((job, error))
                return
            table.append(job, measures, seconds)
            reporter.advance(job, seconds)

        if workers == 1:
            for job in jobs:
                finish(job, lambda job=job: self._execute_job(experiment, job))  # type: ignore[misc]
            return failed
        # Threads: the forests' kernels and scikit-learn's trees run outside Python's lock.
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
                print("\nfinishing the jobs that are running ...", file=sys.stderr)
                for future, job in running.items():
                    if job not in table:  # it was being written down
                        finish(job, future.result)
                raise

    def _execute_job(self, experiment: ModuleType, job: Job) -> tuple[dict[str, Any], float]:
        started = time.perf_counter()
        measures = experiment.measure(job, self)
        return measures, time.perf_counter() - started


def find_commit() -> str | None:
    """The commit this code is of; None outside a repository."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = ["git", "rev-parse", "HEAD"]
        return subprocess.run(
            asked, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    return None


def describe_machine() -> dict[str, Any]:
    """What numbers may depend on."""
    import numpy
    import sklearn

    import bspforest

    return {
        "bspforest": bspforest.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
