"""Test that the runner resumes after a kill with the same numbers, and that the page handles incomplete results.

The tests were seen to detect an incomplete line that is kept (the killed run) and seeds that depend on the time (the
killed run, the rerun, the seeds).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bspforest.datasets import DATA_VARIABLE
from experiments import airline, classification, cost, efficiency, friedman, page, prices, runner, tuning
from experiments.__main__ import EXPERIMENTS, main
from experiments.methods import ADDED, make_forest
from experiments.runner import FULL, QUICK, Job, Run, Scale, Table

TINY = Scale("tiny", trees=2, repetitions=2)
ROOT = Path(__file__).parents[2]

# A run of twelve jobs that records their seeds. The first run never ends: from the seventh job on, jobs wait to be killed.
SLOW_RUN = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from experiments.runner import Job, Run, Scale

started = []

def measure(job, run):
    started.append(job)
    if len(started) > 6 and sys.argv[2] == "first":
        time.sleep(600)
    return {"value": job.seed / 7}

def plan(scale):
    return [Job("slow", "none", "method", (("k", k),), r) for k in range(6) for r in range(2)]

slow = SimpleNamespace(NAME="slow", SETTINGS=("k",), MEASURES=("value",), TIMED=False, plan=plan, measure=measure)
Run(Path(sys.argv[1]), Scale("tiny", 2, 2)).execute([slow])
"""


def start(folder: Path, which: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-c", SLOW_RUN, str(folder), which]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


@pytest.mark.long
def test_killed_run_is_resumed(tmp_path):
    path = tmp_path / "killed" / "slow.csv"
    run = start(path.parent, "first")
    until = time.monotonic() + 300  # kernels may have to be compiled first
    while not (path.exists() and path.read_bytes().count(b"\n") >= 4):
        assert run.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    done = path.read_text().splitlines()
    assert 4 <= len(done) < 13
    with path.open("a") as file:
        file.write("none,method,5,1,12")  # an incomplete line
    assert start(path.parent, "second").wait() == 0
    lines = path.read_text().splitlines()
    assert lines[: len(done)] == done  # finished jobs are not repeated
    assert len(lines) == len(set(lines)) == 13
    for row in pd.read_csv(path).itertuples():  # as in a run without interruption
        seed = Job("slow", "none", "method", (("k", row.k),), row.repetition).seed
        assert row.seed == seed and row.value == pytest.approx(seed / 7, rel=1e-7)


def test_table_with_other_columns_is_rejected(tmp_path):
    path = tmp_path / "a.csv"
    table = Table(path, ("k",), ("value",))
    table.append(Job("a", "none", "method", (("k", 1),), 0), {"value": 0.25}, 1.0)
    assert Job("a", "none", "method", (("k", 1),), 0) in Table(path, ("k",), ("value",))
    with pytest.raises(ValueError, match="other columns"):
        Table(path, ("k",), ("other",))
    with pytest.raises(ValueError, match="has no columns for"):
        table.append(Job("a", "none", "method", (("k", 2),), 0), {"wrong": 0.25}, 1.0)


def test_scales_cannot_be_mixed(tmp_path):
    Run(tmp_path, TINY).record_provenance()
    Run(tmp_path, TINY).record_provenance()
    with pytest.raises(SystemExit, match="another scale"):
        Run(tmp_path, QUICK).record_provenance()


def test_failing_job_does_not_stop_the_run(tmp_path, capsys):
    def measure(job, run):
        if job["k"] == 1:
            raise MemoryError("too large")
        return {"value": 1.0}

    jobs = [Job("some", "none", "method", (("k", k),), 0) for k in range(3)]
    some = SimpleNamespace(
        NAME="some", SETTINGS=("k",), MEASURES=("value",), TIMED=True, plan=lambda scale: jobs, measure=measure
    )
    run = Run(tmp_path, TINY)
    failed = run.execute([some])
    assert [job["k"] for job, _ in failed] == [1] and "too large" in capsys.readouterr().err
    assert [job["k"] for job in run.missing(some)] == [1]


def test_jobs_that_finish_after_an_interrupt_are_recorded(tmp_path, monkeypatch):
    def measure(job, run):
        time.sleep(0.05)
        return {"value": 1.0}

    def interrupt(*args, **options):
        monkeypatch.undo()
        raise KeyboardInterrupt

    jobs = [Job("some", "none", "method", (("k", k),), 0) for k in range(3)]
    some = SimpleNamespace(
        NAME="some", SETTINGS=("k",), MEASURES=("value",), TIMED=False, plan=lambda scale: jobs, measure=measure
    )
    monkeypatch.setattr(runner, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Run(tmp_path, TINY, n_jobs=2).execute([some])
    assert [job["k"] for job in Run(tmp_path, TINY).missing(some)] == [2]  # two were running


def test_run_records_its_commit(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    path.write_text(
        '{"scale": {"name": "tiny", "trees": 2, "repetitions": 2}, "machines": []}'
    )  # written by an older version
    for commit, held in ((None, None), ("abc", ["abc"]), ("abc", ["abc"]), ("def", ["abc", "def"])):
        monkeypatch.setattr(runner, "find_commit", lambda commit=commit: commit)
        Run(tmp_path, TINY).record_provenance()
        assert json.loads(path.read_text()).get("commits") == held
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")  # no git
    assert runner.find_commit() is None


def test_seeds_depend_on_keys_only():
    jobs = [job for experiment in EXPERIMENTS.values() for job in experiment.plan(FULL)]
    assert len({(job.experiment, job.key) for job in jobs}) == len(jobs)
    assert len({job.seed for job in jobs}) > len(jobs) - 5  # 32 bits: collisions are rare
    one, other = (Job("x", "letter", method, (("share", 0.1),), 3) for method in ("bsp", "mondrian"))
    assert one.seed != other.seed and one.data_seed == other.data_seed
    assert one.seed == Job("x", "letter", "bsp", (("share", 0.1),), 3, cost=9.0).seed == 2984827583


def test_full_run_covers_the_paper():
    jobs = {e.NAME: e.plan(FULL) for e in EXPERIMENTS.values()}
    shares = {job["share"] for job in jobs["classification"] if job["features"] == 4}
    assert shares == {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, "official"}
    assert {job.repetition for job in jobs["classification"] if job["features"] == 4} == set(range(16))
    assert {(job["d"], job["n"]) for job in jobs["friedman"]} == {(d, n) for d in (5, 10) for n in friedman.SIZES}
    assert {job["n"] for job in jobs["airline"]} == {100_000, 400_000, 1_000_000}
    assert len({job["scale"] for job in jobs["efficiency"]}) == 15
    hours = sum(j.cost / (1 if e.TIMED else 2) for e in EXPERIMENTS.values() for j in jobs[e.NAME]) / 3600
    assert hours < 3.3  # estimated, on two cores
    added = sum(j.cost / (1 if e.TIMED else 2) for e in EXPERIMENTS.values() for j in jobs[e.NAME] if j.method in ADDED)
    assert added < 1800
    for name in ("classification", "friedman", "prices", "airline"):
        assert set(ADDED) <= {job.method for job in jobs[name]}


def test_only_chosen_methods_are_run(tmp_path, capsys):
    def plan(scale):
        return [Job("some", "none", method, (("k", 1),), 0) for method in ("bsp", "auto")]

    other = SimpleNamespace(NAME="other", SETTINGS=(), MEASURES=(), TIMED=True, plan=lambda scale: [])
    some = SimpleNamespace(
        NAME="some",
        SETTINGS=("k",),
        MEASURES=("value",),
        TIMED=True,
        plan=plan,
        measure=lambda job, run: {"value": 1.0},
    )
    run = Run(tmp_path, TINY)
    assert run.execute([other, some], ["auto"]) == []
    assert [job.method for job in run.missing(some)] == ["bsp"]
    assert "some: 1 jobs to run, 0 finished" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--methods", "nonsense"])
    assert "unknown method 'nonsense': choose from auto, " in capsys.readouterr().err


def test_added_methods(monkeypatch):
    X = np.random.default_rng(0).random((80, 3))
    default, mean = (make_forest(m, classify=False, d=3, trees=2, seed=5) for m in ("auto", "bsp"))
    assert default.get_params() == type(default)(2, random_state=5, n_jobs=1).get_params()
    assert mean.prediction == "mean"  # the paper's forest, whatever the defaults are
    one, other = (make_forest("lightgbm", classify=True, d=3, trees=2, seed=5).fit(X, X[:, 0] > 0.5) for _ in range(2))
    assert one.n_estimators == 10 and np.array_equal(one.predict_proba(X), other.predict_proba(X))
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"bspforest\[experiments\]"):
        make_forest("lightgbm", classify=True, d=3, trees=2, seed=5)


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """Run the experiments that need no dataset twice, with two trees per forest."""
    runs = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "CLASSIFICATION", ())
        patch.setattr(tuning, "REGRESSION", (("friedman5", 5), ("friedman10", 10)))
        patch.setattr(friedman, "N_TEST", 200)
        patch.setattr(efficiency, "N_TEST", 200)
        for name, n_jobs in (("one", 1), ("two", 2)):
            run = Run(tmp_path_factory.mktemp(name), TINY, n_jobs)
            assert run.execute([tuning, efficiency, friedman]) == []
            runs.append(run)
    return runs


def test_rerun_gives_the_same_numbers(tiny_run):
    for name, columns in (("friedman", ["rmse", "leaves"]), ("efficiency", ["rmse", "leaves"]), ("tuning", ["score"])):
        first, second = (pd.read_csv(run.folder / f"{name}.csv").set_index(["method", "dataset"]) for run in tiny_run)
        keys = [c for c in first.columns if c in ("d", "n", "scale", "features", "repetition")]
        one, two = (f.sort_values(["method", "dataset", *keys])[[*keys, "seed", *columns]] for f in (first, second))
        assert one.equals(two) and len(one)


@pytest.mark.parametrize("kept", [1.0, 0.4, 0.05])
def test_page_from_incomplete_results(tiny_run, tmp_path, kept):
    folder = tmp_path / "results"
    folder.mkdir()
    for name in ("friedman", "efficiency"):
        header, *lines = (tiny_run[0].folder / f"{name}.csv").read_text().splitlines()
        some = random.Random(1).sample(lines, round(kept * len(lines)))
        (folder / f"{name}.csv").write_text("\n".join([header, *some]) + "\n")
    run = Run(folder, TINY)
    path = page.write(run, list(EXPERIMENTS.values()), tmp_path / "docs" / "results.md")
    text = path.read_text()
    assert "This run is not complete" in text and "classification: 464 of 464 jobs are missing" in text
    assert ("friedman: " in text.split("##")[0]) == (kept < 1)
    assert "## Friedman's function" in text and "## Cost" not in text
    for figure in ("../results/friedman.png", "../results/efficiency.png"):
        assert figure in text and (path.parent / figure).stat().st_size > 10_000
    if kept == 1:
        rmse = pd.read_csv(folder / "friedman.csv").query("d == 5 and n == 300 and method == 'bsp'")["rmse"]
        assert f"{rmse.mean():.3f} ± {1.96 * rmse.std() / np.sqrt(2):.3f}" in text


def test_unknown_experiment(capsys):
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "unknown experiment 'nonsense': choose from tuning, " in capsys.readouterr().err


# The datasets cannot be redistributed, so this test needs local copies.
@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason="no datasets: BSPFOREST_DATA is not set")
@pytest.mark.parametrize("experiment", [classification, prices, airline])
def test_one_job_per_dataset(tmp_path, experiment):
    run = Run(tmp_path, TINY)
    jobs = {job.method: job for job in experiment.plan(TINY)}
    for method in ("bsp", "mondrian", *ADDED):
        measures = experiment.measure(jobs[method], run)
        assert set(measures) <= set(experiment.MEASURES)
        assert measures.get("accuracy", 0.0) > 0.3 or 0 < measures.get("rmse", 0.0) < 45


def test_cost_is_measured_in_a_separate_process(tmp_path):
    measures = cost.measure(Job("cost", "friedman", "bsp_fit", (("n", 20_000), ("d", 5)), 0), Run(tmp_path, TINY))
    assert measures["trees"] == 10
    assert 0.01 < measures["us_per_row_and_tree"] < 50
    assert 10 < measures["bytes_per_row_and_tree"] < 1000
