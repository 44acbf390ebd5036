"""Test the page on small made-up tables: comparisons, verdicts, and sentences that depend on the numbers.

The tests were seen to detect unpaired comparisons and the mistakes they are named after.
"""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from experiments import airline, classification, cost, efficiency, friedman, page, prices
from experiments.__main__ import EXPERIMENTS
from experiments.leaves import compare_with_mondrian
from experiments.methods import ADDED
from experiments.runner import FULL, Run
from experiments.summary import Comparison, compare, compare_by_sign, judge, judge_size, make_standings


def make_frame(gap: float, noise: float, repetitions: int = 10) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for r in range(repetitions):
        level = rng.normal()  # shared by both methods, so it cancels in paired comparisons
        for n in (1, 2):
            rows.append({"method": "a", "n": n, "repetition": r, "rmse": level + noise * rng.normal()})
            rows.append({"method": "b", "n": n, "repetition": r, "rmse": level + gap + noise * rng.normal()})
    return pd.DataFrame(rows)


def test_comparisons_and_verdicts():
    better = compare(make_frame(0.5, 0.1), "a", "b", ["n"], "rmse")
    assert (better.better, better.level, better.worse) == (2, 0, 0) and better.gains[0] == pytest.approx(0.5, abs=0.1)
    worse = compare(make_frame(0.5, 0.1), "a", "b", ["n"], "rmse", smaller=False)
    assert worse.worse == 2
    level = compare(make_frame(0.0, 0.1), "a", "b", ["n"], "rmse")
    assert level.level == 2
    single = compare(make_frame(0.5, 0.1, repetitions=1), "a", "b", ["n"], "rmse")
    assert single.better == single.single == 2 and "with a single run" in str(single)
    assert judge({"x": better, "y": better}) == "**reproduced**"
    assert judge({"x": better, "y": worse}) == "**reproduced only under** x"
    assert judge({"x": worse}) == "**not reproduced**"
    assert judge({"x": level}) == "**no significant difference**"
    assert judge({"x": Comparison(1, 1, 0)}).startswith("**partly**: never worse")
    assert judge({"x": Comparison()}) == "not run"
    assert judge({"x": single, "y": better}) == "**reproduced** (2 of 4 comparisons with a single run)"
    assert judge({"x": compare_by_sign([0.1, 0.2])}) == "**reproduced** (by means)"
    assert judge_size("better", {"x": Comparison(2, gains=[0.1, 0.7])}, "by 0.1", fits=(0.05, 0.15)) == (
        "better: **reproduced**; by 0.1: no, measured 0.10 to 0.70"
    )
    assert judge_size("longer", {"x": compare_by_sign([0.1])}, "a bit", ".0%").endswith(
        "(by means); a bit: measured 10%"
    )


def test_mondrian_is_interpolated_at_equal_leaves():
    points = {"mondrian": (10, 5.0), "mondrian_fair": (100, 3.0), "mondrian_fixed": (1000, 2.5), "bsp": (80, 3.05)}
    rows = [
        {"method": m, "n": n, "repetition": r, "leaves": k, "rmse": rmse + 0.01 * r}
        for m, (k, rmse) in points.items()
        for n in (1, 2)
        for r in range(3)
    ]
    frame = pd.DataFrame(rows)
    frame.loc[(frame["method"] == "bsp") & (frame["n"] == 2), "leaves"] = 2000  # more than any
    text, equal = list(compare_with_mondrian(frame, {"exact": ("bsp", "rmse")}, ["n"]).items())[-1]
    assert "at equal leaves" in text and equal["exact"].total == equal["exact"].better == 1
    line = 3.0 + 2.0 * np.log10(100 / 80) - 3.05
    assert 0 < equal["exact"].gains[0] < line and f"with linear interpolation {line:+.3f}" in str(equal["exact"])
    fair = [text for text in compare_with_mondrian(frame, {"exact": ("bsp", "rmse")}, ["n"]) if "(d-1)" in text]
    assert fair == ["Against Mondrian, (d-1) τₙ (our addition; it has 0.05 to 1.25 times the leaves of BSP, τₙ)"]


def test_standings_average_over_the_same_rows():
    level = [1.0, 2.0, 3.0]  # later repetitions have harder rows
    rows = [{"method": "bsp", "repetition": r, "rmse": v} for r, v in enumerate(level)]
    rows += [{"method": "mean", "repetition": 2, "rmse": 9.0}]
    (alone,) = make_standings(pd.DataFrame(rows), "alone", "rmse")
    assert alone.error == 2.0 and alone.batch == "not run"
    (beside,) = make_standings(
        pd.DataFrame([*rows, {"method": "extra_trees", "repetition": 0, "rmse": 0.8}]), "beside", "rmse"
    )
    assert (beside.error, beside.batch_error) == (1.0, 0.8)
    assert page.describe_standings([alone, beside])[-2:] == [
        "| beside | extra trees | 0.800 | 1.000 | BSP, τₙ | 1.000 | 1.25 |",
        "| alone | not run |  | 2.000 | BSP, τₙ | 2.000 |  |",
    ]


def test_gain_of_soft_voting_is_averaged_over_fractions_first():
    rows = [
        {"features": 4, "dataset": "dna", "share": s, "method": "bsp", "repetition": r, "accuracy": 0.5 + s}
        for s in (0.1, 0.3)
        for r in range(4)
    ]
    lines = classification.describe_votes(pd.DataFrame(rows).assign(accuracy_hard=0.5))
    assert lines[-1] == "| BSP, τₙ | 0.2000 ± 0.0000 |"  # fractions differ, repetitions do not


def test_claims_about_stability_and_budget():
    budgets = pd.DataFrame(
        {"method": "bsp", "scale": s, "repetition": r, "rmse": 0.5, "leaves": 100 * s}
        for s in (0.5, 1.0, 1.5)
        for r in (0, 1)
    )
    stable = efficiency.judge_saturation(budgets)
    assert stable.verdict == "**reproduced** (by means)" and "RMSE +0%, leaves +50% from 1.0 to 1.5" in stable.numbers
    errors = {"extra_trees": 1.0, "random_forest": 1.1, "bsp": 2.3, "bsp_fixed": 2.3}
    noisy = pd.DataFrame(
        {"method": m, "d": 10, "n": n, "repetition": r, "rmse": e + 0.01 * r, "leaves": n / 2}
        for m, e in errors.items()
        for n in (300, 1000)
        for r in (0, 1)
    )
    claim = friedman.judge_budget(noisy)
    assert claim.verdict == "**not reproduced**"  # matching a smaller budget is not matching the batch forests
    assert "gain -1.300" in claim.numbers and "fully grown" in claim.numbers


def make_airline(**biases: float) -> pd.DataFrame:
    """Return two repetitions of each method in each order, with given mean errors in time order."""
    return pd.DataFrame(
        {"method": m, "order": order, "n": 100_000, "repetition": r, "rmse": 35.0 + less, "bias": bias - less}
        | {"spread": 34.0 + less, "leaves": 10.0}
        for m, bias in biases.items()
        for order, less in (("time", 0.0), ("shuffled", 1.0), ("no calendar", -0.25))
        for r in range(2)
    )


def test_airline_sentences_follow_the_numbers():
    lines = airline.explain(make_airline(mean=9.25, bsp=8.25, mondrian=7.5))
    text = "\n".join(lines)
    assert "constant mean of the training rows has a mean error of +9.25" in text
    assert "mean errors of the forests range from +7.50 to +8.25" in text
    assert "All methods overestimate" in text
    assert (
        "+8.25 and a spread of 34.00 with them, +8.50 and 33.75 without: with them its RMSE is larger by 0.25" in text
    )
    assert "| BSP, τₙ | 35.00 | +8.25 | 34.00 | 36.00 | +7.25 | 35.00 | 34.75 | +8.50 | 33.75 |" in lines
    assert "All methods overestimate" not in "\n".join(airline.explain(make_airline(bsp=8.25, mondrian=-7.5)))
    frame = make_airline(mean=9.25, bsp=8.25)
    assert airline.explain(frame[frame["order"] != "time"]) == []
    assert "without: with" not in "\n".join(airline.explain(frame[frame["order"] != "no calendar"]))


def test_shuffled_flights_share_permutations():
    frame = make_airline(mean=9.0, bsp=8.0, extra_trees=8.0).assign(leaves=np.nan, fit_s=1.0, peak_mb=1.0)
    late = frame["repetition"] == 1
    frame.loc[late & (frame["order"] == "shuffled"), "rmse"] += 2.0
    frame = frame[~(late & (frame["method"] == "extra_trees"))]
    million = frame[(frame["order"] == "shuffled") & (frame["method"] == "bsp")].assign(n=1_000_000)
    section = airline.describe(pd.concat([frame, million]), [])
    text = "\n".join(section.lines)
    assert "the constant mean ranges from 36.0 to 38.0" in text
    assert "number of rows: 1 at 100,000, 2 at 1,000,000." in text
    assert "No batch forest was run on 1,000,000 shuffled rows." in text
    assert "| BSP, τₙ | **36.00** | **37.00 ± 1.96** |" in text  # not 37.00, since extra trees has one permutation
    assert {s.what: s.batch for s in section.standings}["airline, 1,000,000 rows, shuffled"] == "not run"


def test_stated_reductions_match_the_plan():
    counts = Counter((job["order"], job["n"], job.method in airline.FAST[1:]) for job in airline.plan(FULL))
    n_fast, n_slow = len(airline.FAST) - 1, len(airline.SLOW) + 1  # the constant mean is not counted
    for order, n, fast, slow in (
        ("time", 100_000, 16, 3),
        ("shuffled", 400_000, 3, 1),
        ("time", 1_000_000, 3, 1),
        ("shuffled", 1_000_000, 1, 1),
        ("no calendar", 100_000, 4, 1),
    ):
        assert counts[order, n, True] == fast * n_fast
        assert slow * (n_slow - 1) <= counts[order, n, False] <= slow * (n_slow - 1) + 16
    text = " ".join(page.REDUCED.split())
    assert "16 repetitions at 100K for fast methods, 3 for the batch forests; 3 and 1 at 400K" in text
    assert "1 at 1M shuffled" in text


def test_stated_reductions_of_redraw_match_the_plan():
    redrawn = [job for e in EXPERIMENTS.values() for job in e.plan(FULL) if "redraw" in job.method]
    assert Counter((job.experiment, job["n"]) for job in redrawn) == {("efficiency", n): 2 * 4 for n in (300, 500)}
    assert "with 300 and 500 rows and 4 repetitions; elsewhere they are not run" in " ".join(page.REDUCED.split())


def test_stated_reductions_of_added_methods_match_the_plan():
    def count(experiment, *settings):
        jobs = [job for job in experiment.plan(FULL) if job.method in ADDED]
        return Counter(tuple(job[name] for name in settings) for job in jobs)

    for (_, share), runs in count(classification, "features", "share").items():
        assert runs == 2 * 4 * classification.ADDED_REPETITIONS and share in (0.1, 0.5, 0.9, "official")
    assert ("all", 0.9) not in count(classification, "features", "share")
    assert set(count(friedman, "d", "n").values()) == {2 * 16} and count(prices)[()] == 2 * 8
    flights = count(airline, "order", "n")
    assert flights == {
        ("time", 100_000): 6,
        ("shuffled", 100_000): 6,
        ("time", 400_000): 2,
        ("shuffled", 400_000): 2,
        ("no calendar", 100_000): 2,
    }
    text = " ".join(page.REDUCED.split())
    assert "3 repetitions in classification, at training fractions 0.1 and 0.5 (with four components also 0.9)" in text
    assert "airline 3 at 100K, 1 at 400K, 1 without day and month, none at 1M" in text


def test_memory_tables_by_rows_and_by_features(tmp_path):
    rows = [
        {"method": m, "n": n, "d": d, "us_per_row_and_tree": d * 1.0, "bytes_per_row_and_tree": bytes_}
        for m, points in {
            "bsp_chunks": ((100, 5, 0.0), (3000, 5, 50.0), (3000, 10, 70.0), (10_000, 5, 55.0)),
            "reference": ((50, 5, 410.0), (50, 10, 410.0), (300, 5, 900.0), (1000, 5, 950.0)),
        }.items()
        for n, d, bytes_ in points
    ]
    frame = pd.DataFrame(rows)
    lines = cost.describe(frame, cost.draw(frame, tmp_path)).lines
    assert "| the paper's algorithm in plain Python | 900 | 950 |  |  |" in lines  # at 300 and 1,000 rows
    assert "| BSP, online in chunks of 1,000 |  |  | 50 | 55 |" in lines
    assert "| BSP, online in chunks of 1,000 | 50 | 70 |" in lines
    assert (tmp_path / "cost.png").stat().st_size > 10_000


def test_prices_state_their_source():
    frame = pd.DataFrame({"method": m, "share": 0.2, "repetition": 0, "rmse": 0.7, "leaves": 70} for m in ("bsp",))
    text = " ".join(prices.describe(frame, []).lines)
    assert "HM Land Registry data © Crown copyright" in text and "Open Government Licence v3.0" in text
    assert "The data are not the paper's" in text and "in 2018" not in text


def test_page_has_goals_and_commit(tmp_path):
    held = {"machines": [{"cores": 2}], "commits": ["0123456789abcdef"], "remarks": ["Other work ran too."]}
    (tmp_path / "run.json").write_text(json.dumps(held))
    lines = page.assemble(Run(tmp_path, FULL), [], [("letter, accuracy", "≥ 0.645", "0.652", True)], [])
    assert "## Goals of this library" in lines and "| letter, accuracy | ≥ 0.645 | 0.652 | yes |" in lines
    assert "cores 2; commit 0123456789ab." in lines[2] and "Other work ran too." in lines
