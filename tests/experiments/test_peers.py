"""Test the comparison of the default forest with batch peers, and that added methods change nothing else on the page.

The tests were seen to detect means over different rows, and added methods in the paper's standings and shared repetitions.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments import airline, classification, friedman, page, prices
from experiments.methods import ADDED
from experiments.peers import add_seconds, describe_contests, make_contest
from experiments.summary import Section, format_table, keep_shared_repetitions

METHODS = ("random_forest", "extra_trees", "mondrian_fixed", "mondrian", "bsp", "bsp_redraw", "bsp_3", "mean")


def make_rows(setting: dict, errors: dict[str, list[float]], value: str = "rmse") -> pd.DataFrame:
    """Return one row per method and repetition."""
    return pd.DataFrame(
        {"method": m, "repetition": r, **setting, value: e} for m, es in errors.items() for r, e in enumerate(es)
    )


def test_contest_is_on_shared_rows_with_the_best_peer():
    errors = {"auto": [1.0, 2.0], "random_forest": [0.9, 1.9, 0.1], "extra_trees": [0.8, 2.1], "bsp": [0.1] * 3}
    (one,) = make_contest(make_rows({}, errors), "here", "rmse")
    assert (one.peer, one.runs, one.absent) == ("random_forest", 2, ("lightgbm",))  # the third has other rows
    assert (one.error, one.peer_error) == (1.5, 1.4) and one.half == pytest.approx(0.0, abs=1e-12)
    accuracies = {m: [1 - e for e in es] for m, es in errors.items()}
    (same,) = make_contest(make_rows({}, accuracies, "accuracy"), "here", "accuracy")
    assert same.difference == pytest.approx(one.difference) and same.ratio == pytest.approx(one.ratio)
    assert make_contest(make_rows({}, {"bsp": [1.0], "extra_trees": [1.0]}), "here", "rmse") == []
    assert make_contest(make_rows({}, {"auto": [1.0], "bsp": [1.0]}), "here", "rmse") == []


def test_lost_level_and_won_settings():
    def contest(what: str, ours: list[float]):
        return make_contest(make_rows({}, {"auto": ours, "lightgbm": [1.0, 1.0, 1.0]}), what, "rmse")

    contests = (
        contest("won", [0.8, 0.81, 0.79]) + contest("level", [1.3, 0.7, 1.1]) + contest("lost", [1.5, 1.51, 1.49])
    )
    contests += contest("lost by more", [3.0])
    text = "\n".join(describe_contests(contests, {"auto": 600.0}))
    assert "Loses in 2; level in 1; wins in 1 of 4 settings." in text
    assert "2.25 times that of the peer in the median and 3.00 times at most; the peer is LightGBM in 2" in text
    assert "random forest was not run in 4 of them" in text and "10 min for BSP, joint" in text
    assert text.index("| lost by more | LightGBM | 1.0000 | 3.0000 | +2.0000 | 3.00 | 1 |") < text.index("| lost |")
    half = 4.303 * 0.01 / np.sqrt(3)
    assert f"| lost | LightGBM | 1.0000 | 1.5000 | +0.5000 ± {half:.4f} | 1.50 | 3 |" in text
    lost, level, won = text.index("Loses (2):"), text.index("Level (1):"), text.index("Wins (1):")
    assert lost < text.index("| lost |") < level < text.index("| level |") < won < text.index("| won |")


def test_page_without_added_methods():
    assert describe_contests([], {})[-1] == "*BSP, joint* was not run, or none of its peers."
    assert "None." in describe_contests(make_contest(make_rows({}, {"auto": [1], "lightgbm": [2]}), "x", "rmse"), {})
    lines = format_table(make_rows({"n": 1}, {"bsp": [1.0, 2.0]}), "rmse", "n", ("bsp", "mondrian", *ADDED))
    assert lines[-2:] == ["| BSP, joint | not run |", "| LightGBM | not run |"] and len(lines) == 5


def test_tables_show_runs_and_keep_the_paper_bold():
    frame = make_rows({"n": 1}, {"bsp": [2.0], "mondrian": [3.0], "auto": [1.0, 1.0], "lightgbm": [2.5]})
    assert format_table(frame, "rmse", "n", ("bsp", "mondrian", *ADDED))[2:] == [
        "| BSP, τₙ | **2.000** |",
        "| Mondrian, τₙ | 3.000 |",
        "| BSP, joint | **1.000 ± 0.000** (2 runs) |",
        "| LightGBM | 2.500 (1 run) |",
    ]


def test_added_methods_do_not_decide_which_repetitions_are_shared():
    frame = make_rows(
        {"n": 1}, {"bsp": [1.0, 2.0, 3.0], "extra_trees": [1.0, 2.0], "auto": [1.0], "lightgbm": [1.0] * 3}
    )
    kept = keep_shared_repetitions(frame, ["n"]).groupby("method")["repetition"].count().to_dict()
    assert kept == {"bsp": 2, "extra_trees": 2, "auto": 1, "lightgbm": 2}


def make_frames(rng: np.random.Generator) -> dict:
    """Return a random table of each experiment with added methods."""
    methods = dict.fromkeys(METHODS, 3) | {"auto": 2, "lightgbm": 1}

    def make(settings: list[dict], *values: str) -> pd.DataFrame:
        rows = [
            {"method": m, "repetition": r, "seconds": 1.0, **s, **{v: rng.random() for v in values}}
            for s in settings
            for m, runs in methods.items()
            for r in range(runs)
        ]
        return pd.DataFrame(rows)

    points = [
        {"dataset": d, "features": k, "share": s}
        for d in ("dna", "letter")
        for k in ("4", "all")
        for s in ("0.1", "0.5", "official")
    ]
    flights = [{"order": order, "n": n} for order in airline.ORDERS for n in (100_000, 400_000)]
    return {
        classification: make(points, "accuracy", "accuracy_hard", "leaves"),
        friedman: make([{"d": d, "n": n} for d in (5, 10) for n in (300, 1000)], "rmse", "leaves"),
        prices: make([{"share": 0.2}], "rmse", "leaves"),
        airline: make(flights, "rmse", "bias", "spread", "leaves", "fit_s", "peak_mb"),
    }


def test_added_methods_change_nothing_of_the_paper():
    added_rows = 0
    for experiment, frame in make_frames(np.random.default_rng(0)).items():
        paper = frame[~frame["method"].isin(ADDED)]
        first: Section = experiment.describe(paper, [])
        second: Section = experiment.describe(frame, [])
        assert first.claims == second.claims and first.standings == second.standings
        assert first.contests == [] and second.contests
        assert all(each.runs == 1 and each.absent == () for each in second.contests)
        labels = ("| BSP, joint |", "| LightGBM |")
        kept = [[line for line in section.lines if not line.startswith(labels)] for section in (first, second)]
        assert kept[0] == kept[1]
        added_rows += sum("(2 runs)" in line for line in second.lines)
        if hasattr(experiment, "check_goals"):
            assert experiment.check_goals(paper) == experiment.check_goals(frame)
        seconds: dict[str, float] = {}
        add_seconds(seconds, frame)
        assert seconds["auto"] == 2 * seconds["lightgbm"] > 0
    assert added_rows >= 10 and "additions" in page.NOTES
