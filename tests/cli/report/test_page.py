"""The page: what it says, and that nothing in the data can change what it is."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from bspforest.cli.evaluation.runner import Runner
from bspforest.cli.report.collect import QUANTILES, ClassNotes, NumberNotes
from bspforest.cli.report.contents import Report
from bspforest.cli.report.page import make_page
from bspforest.cli.report.sections import collapse_classes
from bspforest.cli.report.words import describe_response, list_findings, thin, write_verdict
from bspforest.forest.settings import Revision

HOSTILE = "</title></style><script>alert('&\"x')</script><img src=x onerror=alert(1)>\x00\u202e"
REVISIONS = [
    Revision(100, "minmax", "rejected", 3.0, 0.5, 0.5, 1.0, 0.1),
    Revision(200, "quantile", "accepted", 2.0, 0.4, 0.3, 2.0, 0.1),
]


class Fixed:
    """A model that says what it is told."""

    def __init__(self, answer):
        self._answer = answer

    def learn(self, X, y):
        pass

    def predict(self, X):
        return self._answer[X]


def make_report(truth, predicted, *, classes=(), names=("forest", "other"), **changes):
    """Return the report of given predictions, the first 100 rows of which are only learned."""
    notes = ClassNotes() if classes else NumberNotes()
    runners = [Runner(name, Fixed(predicted), len(classes), 500) for name in names]
    for start in range(0, len(truth), 100):
        rows = np.arange(start, start + 100)
        for runner in runners:
            runner.step(rows, truth[rows], first=start == 0)
        if start == 0:
            notes.n_first = 100
        elif classes:
            notes.add(truth[rows], predicted[rows])
        else:
            spread = np.array([-1.64, -1.28, -0.67, 0.67, 1.28, 1.64])
            notes.add(truth[rows], predicted[rows], predicted[rows, None] + spread)
    assert len(QUANTILES) == 6
    contents = {
        **{"source": "data.csv", "target": "label", "features": ["a", "b"], "classes": list(classes)},
        **{"runners": runners, "notes": notes, "n_rows": len(truth), "n_skipped": 2, "chunk_rows": 100},
        **{"score_window": 500, "importances": [(200, np.array([0.9, 0.1])), (900, np.array([0.25, 0.75]))]},
        **{"revisions": REVISIONS, "settings": {"--target": "label"}},
    }
    return Report(**(contents | changes))


def make_class_report(**changes):
    rng = np.random.default_rng(0)
    truth = (rng.random(3000) < 0.4).astype(int)
    wrong = rng.random(3000) < np.where(np.arange(3000) < 2000, 0.1, 0.4)
    sure = np.eye(2)[truth ^ wrong]
    return make_report(truth, 0.9 * sure + 0.1 * (1 - sure), **({"classes": ["no", "yes"]} | changes))


def make_number_report(**changes):
    rng = np.random.default_rng(1)
    truth = 3 * rng.normal(size=3000)
    return make_report(truth, truth + rng.normal(size=3000), **changes)


class Reader(HTMLParser):
    """Notes tags, attributes and text, and that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attributes]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_the_verdict_and_findings_of_classes():
    report = make_class_report()
    right = report.notes.confusion.trace() / 2900
    share = report.notes.confusion.sum(axis=1).max() / 2900
    assert write_verdict(report) == (
        f"Over 2,900 rows, {100 * right:.1f} % were predicted correctly before they were learned; always predicting the most "
        f"frequent class (no) would give {100 * share:.1f} %."
    )
    compared, calibrated, drifted, features = list_findings(report)
    assert compared.endswith("the forest is not better.")
    assert "percentage points" in calibrated and "too sure of itself" in calibrated  # 90 % sure, 80 % right
    assert re.search(r"rose once. Around row (1,9|2,0)\d\d the share of wrong predictions rose from 1\d", drifted)
    assert features == "At the end it depends most on b (75.0 %), a (25.0 %)."


def test_the_verdict_and_findings_of_numbers():
    report = make_number_report(names=("forest",))
    scores = report.runners[0].scores.overall()
    verdict = write_verdict(report)
    assert f"off by {scores['MAE']:.4f} on average" in verdict and f"explain {100 * scores['R²']:.1f} %" in verdict
    intervals, drift, _ = list_findings(report)
    assert (
        intervals.endswith("about as many as they should.")
        and drift == "No rise of the error was found along the stream."
    )


def test_unknown_scores_are_not_compared():
    report = make_number_report()
    report.runners[1].scores = type(report.runners[1].scores)(500)  # has scored nothing
    assert not any("best other model" in finding for finding in list_findings(report))


def test_predictions_without_bias_are_said_to_have_none():
    page = make_page(make_report(np.full(600, 3.0), np.full(600, 3.0)))
    assert "On average predictions are neither too high nor too low. The outermost" in page
    assert re.search(
        r"On average predictions are <data[^>]*>0.5000</data> too high\.",
        make_page(make_report(np.zeros(600), np.full(600, 0.5))),
    )


def test_long_names_are_shortened_and_whole_under_the_mouse():
    name = "a" * 10_000 + "z" * 10_000
    page = make_page(make_number_report(target=name, source=name, features=[name, "b"], settings={}))
    short = "a" * 29 + "…" + "z" * 30
    assert f'<h1 title="{name}">How well {short} was predicted</h1>' in page
    assert f'<span class="name" title="{name}">{short}</span>' in page
    assert page.count(name) == 3 and '<span class="name">b</span>' in page
    classes = make_page(make_class_report(classes=[name, "yes"]))
    assert name not in classes and short in classes


def test_few_rows_are_not_judged_harshly():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(2), 400)
    truth = (rng.random(400) < probabilities[:, 1]).astype(int)
    calibrated, drift, _ = list_findings(make_report(truth, probabilities, classes=["no", "yes"], names=("forest",)))
    assert "at face value" in calibrated
    assert drift == "The stream is too short to find a rise of the error."


def test_drift_is_counted_in_rows_of_the_stream():
    report = make_class_report()
    (drift,) = report.drifts
    assert abs(drift.row - 2000) <= 64
    assert drift.row == report.notes.detector.drifts[0].row + 100
    page = read(make_page(report))
    assert any(f"Around row {drift.row:,}" in text for text in page.text)


@pytest.mark.parametrize(
    ("half_lives", "expected"),
    [
        ({1900: 50.0}, ""),
        ({1900: 50.0, 2100: np.inf}, "The forest went on to weigh all rows alike."),
        ({2100: 120.4, 2500: 480.0}, "The forest then let rows count half as much for each 120 rows of age."),
    ],
)
def test_drift_comes_with_what_the_forest_did(half_lives, expected):
    """There is a change at row 2,000 of 3,000."""
    revisions = [REVISIONS[0]._replace(n_samples_seen=row, half_life=value) for row, value in half_lives.items()]
    report = make_class_report(revisions=revisions)
    assert describe_response(report) == expected
    assert list_findings(report)[2].endswith(f"rows). {expected}".rstrip())
    assert expected in make_page(report).replace("&nbsp;", " ")


def test_the_curve_of_a_short_stream_shows_an_abrupt_change():
    """Fails if the error is drawn over the 500 rows of the scores, with which the rise takes 500 rows."""
    report = make_class_report()
    assert report.curve_rows == 200  # 2,900 / 20, in whole chunks
    page = make_page(report)
    assert (
        "The share of wrong predictions over the latest 200 rows (fewer than the 500 of the scores, to show abrupt changes in a "
        "short stream), each predicted before it was learned." in page.replace("&nbsp;", " ")
    )
    points = dict(report.runners[0].scores.draw_over(report.curve_rows))
    assert points[1900] > 0.85 and points[2100] < 0.7  # correct, at rows 2,000 and 2,200 of the stream
    assert make_class_report(score_window=100).curve_rows == 100
    assert "fewer than" not in make_page(make_class_report(score_window=100))


@pytest.mark.parametrize("make", [make_class_report, make_number_report])
def test_names_in_the_data_cannot_become_markup(make):
    changes = {"source": HOSTILE, "target": HOSTILE, "features": [HOSTILE, "b"], "names": (HOSTILE, "other")}
    changes |= {"settings": {HOSTILE: HOSTILE}}
    if make is make_class_report:
        changes["classes"] = [HOSTILE, "yes"]
    page = make_page(make(**changes))
    reader = read(page)
    assert not {"script", "img", "link", "iframe", "object", "a"} & set(reader.tags)
    assert reader.tags.count("title") > 5 and reader.tags.count("style") == 1
    assert not [
        entry for entry in reader.attributes if entry[1].startswith("on") or entry[1] in ("href", "src", "style")
    ]
    assert "\x00" not in page and "\u202e" not in page
    assert any(HOSTILE[:40] in text for text in reader.text)  # and yet it is shown
    assert read(make_page(make())).tags == reader.tags


def test_the_page_needs_nothing_else():
    for report in (make_class_report(), make_number_report()):
        page = make_page(report)
        assert not re.search(r"https?:|url\(|@import|<script", page)
        reader = read(page)
        assert ("meta", "charset", "utf-8") in reader.attributes
        pictures = reader.tags.count("svg")
        assert reader.tags.count("desc") == pictures >= 6
        assert [value for tag, name, value in reader.attributes if (tag, name) == ("svg", "role")] == ["img"] * pictures


def test_a_forest_of_means_and_unknown_importances():
    page = make_page(make_number_report(revisions=[], importances=[(200, np.array([np.nan, np.nan]))]))
    assert "does not revise itself" in page and "Which features matter" not in page


def test_an_interrupted_run_says_so():
    assert "Interrupted" not in make_page(make_number_report())
    assert "Interrupted: these are the scores so far." in make_page(make_number_report(interrupted=True))


def test_revisions_are_told_in_words():
    page = make_page(make_number_report())
    assert "Other weights of features were tried, and were no better; features are compared by their range" in page
    assert (
        "Features were weighed anew; features are now compared by their ranks; the smoothing was chosen anew." in page
    )
    assert REVISIONS[1].describe() in page


def test_many_classes_are_collapsed():
    confusion = np.random.default_rng(0).integers(0, 50, (20, 20))
    confusion[4] += 1000
    counts, names = collapse_classes(confusion, [f"c{k:02}" for k in range(20)])
    assert len(names) == 13 and names[-1] == "8 others" and "c04" in names and names[:-1] == sorted(names[:-1])
    assert counts.sum() == confusion.sum()
    kept = [int(name[1:]) for name in names[:-1]]
    np.testing.assert_array_equal(counts[:-1, :-1], confusion[np.ix_(kept, kept)])
    np.testing.assert_array_equal(collapse_classes(confusion[:12, :12], names[:12])[0], confusion[:12, :12])


def test_many_features_are_collapsed():
    shares = np.linspace(1, 2, 20) / np.linspace(1, 2, 20).sum()
    report = make_number_report(features=[f"f{k}" for k in range(20)], importances=[(200, shares), (900, shares)])
    page = make_page(report)
    assert "12 others together" in page and "Importance of f19" in page and "Importance of f3<" not in page


def test_thin_keeps_the_last_point():
    assert thin(list(range(101)), 10)[-1] == 100 and len(thin(list(range(101)), 10)) <= 10 and thin([], 3) == []
