"""``bspforest evaluate --report``: the file, and its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from csv_files import write_rows

from bspforest.cli.data.stream import Stream
from bspforest.cli.evaluation.baselines import NoChange

FEW = ("--trees", 5, "--chunk-rows", 50, "--score-window", 200)


def read_data(page):
    """Return all exact numbers of a page, in order; None where one is unknown."""
    return [float(value) if value else None for value in re.findall(r'<data value="([^"]*)">', page)]


def read_scores(page):
    """Return the numbers of the table of all scores, by model."""
    (body,) = re.findall(r'<table class="scores">.*?<tbody>(.*?)</tbody>', page)
    return {name: read_data(row) for name, row in re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', body)}


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_numbers_on_the_page_are_those_of_json(kind, run, tmp_path, request):
    path = request.getfixturevalue(kind)[0]
    target = "y" if kind == "numbers" else "kind"
    page, scores = tmp_path / "r.html", tmp_path / "s.json"
    command = ("evaluate", path, "--target", target, *FEW, "--against", "no-change,majority")
    code, out, err = run(*command, "--report", page, "--json", scores)
    assert (code, err) == (0, "")
    assert out.endswith(f"Report: {page}\n")
    text, found = page.read_text(), json.loads(scores.read_text())
    expected = {
        model["name"]: [*model["overall"].values(), *model["last"].values(), model["seconds"]]
        for model in found["models"]
    }
    assert read_scores(text) == expected
    shares = found["importances"][-1]["shares"]
    (cards,) = re.findall(r'<ul class="shares">(.*?)</ul>', text)
    assert read_data(cards) == sorted(shares.values(), reverse=True)
    assert "No rise of the error" in text or kind == "classes"  # its third class comes late
    assert code == run(*command, "--json", tmp_path / "plain.json")[0]
    plain = json.loads((tmp_path / "plain.json").read_text())
    for with_report, without in zip(found["models"], plain["models"], strict=True):
        assert [with_report[key] for key in ("overall", "last", "curve")] == [
            without[key] for key in ("overall", "last", "curve")
        ]


def test_an_abrupt_change_is_marked(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((2400, 2))
    y = np.where(X[:, 0] > 0.5, "a", "b")
    y[1500:] = np.where(X[1500:, 0] > 0.5, "b", "a")
    rows = [[*row, label] for row, label in zip(X.tolist(), y, strict=True)]
    data = write_rows(tmp_path / "change.csv", ["u", "v", "kind"], rows)
    code, out, _ = run("evaluate", data, "--target", "kind", *FEW, "--report", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert code == 0
    assert re.search(
        r"\n\nThe error rose once\. .* The forest then let rows count half as much for each \d+ rows of age\.\n\nReport: ",
        out,
    )
    (row,) = re.findall(r"rose once\. Around row ([\d,]+) the share of wrong predictions", text)
    assert abs(int(row.replace(",", "")) - 1500) <= 64


@pytest.mark.parametrize(
    "label",
    [
        lambda k, a: 1e100 if k == 77 else a,
        lambda k, a: a * 1e99,
        lambda k, a: 5e-324 * (k % 3 > 0),
    ],
)
@pytest.mark.parametrize("values", ["ridge", "mean"])
def test_huge_and_tiny_labels_have_a_report(label, values, run, tmp_path):
    """Fails if JSON has an infinite number, or if an axis of no or infinite length cannot be divided."""
    a = np.random.default_rng(0).random(150).tolist()
    data = write_rows(tmp_path / "d.csv", ["a", "y"], [[x, repr(label(k, x))] for k, x in enumerate(a)])
    code, _, err = run(
        *(
            "evaluate",
            data,
            "--target",
            "y",
            "--task",
            "regression",
            "--chunk-rows",
            30,
            "--trees",
            3,
            "--prediction",
            values,
        ),
        *("--report", tmp_path / "r.html", "--json", tmp_path / "s.json", "--against", "no-change"),
    )
    assert (code, err) == (0, "")
    found = json.loads((tmp_path / "s.json").read_text(), parse_constant=pytest.fail)
    assert 0 <= found["models"][0]["overall"]["RMSE"] < 1e101
    text = (tmp_path / "r.html").read_text()
    assert not re.search(r'="-?(nan|inf)', text) and not re.search(r'points="[^"]*(nan|inf)', text)


def test_means_have_a_report_without_revisions(numbers, run, tmp_path):
    command = ("evaluate", numbers[0], "--target", "y", *FEW, "--prediction", "mean", "--report", tmp_path / "r.html")
    assert run(*command)[0] == 0
    text = (tmp_path / "r.html").read_text()
    assert "does not revise itself" in text and "90&nbsp;% intervals contain" in text


def test_confusion_has_all_rows_under_their_classes(classes, run, tmp_path):
    assert run("evaluate", classes[0], "--target", "kind", *FEW, "--report", tmp_path / "r.html")[0] == 0
    (table,) = re.findall(r"true class</th>.*?</table>", (tmp_path / "r.html").read_text())
    rows = re.findall(r'row">(\w+)</th>(.*?)</tr>', table)
    found = {name: sum(int(n.replace(",", "")) for n in re.findall(r"<td>([\d,]+)</td>", row)) for name, row in rows}
    assert found == {name: np.sum(classes[2][50:] == name) for name in ("high", "late", "low")}


def test_hostile_names_in_a_file(run, tmp_path):
    name = "<script>alert(1)</script>"
    rng = np.random.default_rng(0)
    rows = [[*row, f"{name}{row[0] > 0.5}"] for row in rng.random((400, 2)).tolist()]
    data = write_rows(tmp_path / f"{name.replace('/', '')}.csv", [name, "b", f"{name} y"], rows)
    assert run("evaluate", data, "--target", f"{name} y", *FEW, "--report", tmp_path / "r.html")[0] == 0
    text = (tmp_path / "r.html").read_text()
    assert "<script" not in text and text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 10


def test_what_cannot_be_written_is_refused_before_reading(numbers, run, tmp_path):
    missing = tmp_path / "none.csv"
    for report, message in (
        (tmp_path / "r.pdf", "expected a .html file"),
        (tmp_path / "no" / "r.html", "there is no folder"),
        (tmp_path, "expected a .html file"),
    ):
        code, _, err = run("evaluate", missing, "--target", "y", "--report", report)
        assert code == 2 and f"--report {report}" in err and message in err
    data = tmp_path / "data.html"
    content = Path(numbers[0]).read_bytes()
    data.write_bytes(content)
    code, _, err = run("evaluate", data, "--target", "y", "--report", data)
    assert code == 2 and "this is DATA itself" in err
    assert data.read_bytes() == content


def test_an_interrupted_evaluation_writes_the_report_so_far(numbers, run, tmp_path, monkeypatch):
    take = Stream.next

    def interrupt(self, n):
        if self.n_rows >= 400:
            raise KeyboardInterrupt
        return take(self, n)

    monkeypatch.setattr(Stream, "next", interrupt)
    code, out, err = run("evaluate", numbers[0], "--target", "y", *FEW, "--report", tmp_path / "r.html")
    assert code == 130 and "Report: " in out and "Interrupted after 400 rows" in err
    text = (tmp_path / "r.html").read_text()
    assert "Interrupted: these are the scores so far." in text and "Over 350 rows, " in text


def test_an_interrupted_chunk_counts_for_no_model(numbers, run, tmp_path, monkeypatch):
    """Fails if the forest has scored a chunk that its baseline has not."""
    learn, chunks = NoChange.learn, []

    def interrupt(self, X, y):
        chunks.append(len(y))
        if len(chunks) == 4:
            raise KeyboardInterrupt
        learn(self, X, y)

    monkeypatch.setattr(NoChange, "learn", interrupt)
    command = ("evaluate", numbers[0], "--target", "y", *FEW, "--against", "no-change", "--json", tmp_path / "s.json")
    code, _, _ = run(*command, "--report", tmp_path / "r.html")
    found = json.loads((tmp_path / "s.json").read_text())
    assert code == 130 and found["rows_scored"] == 100
    assert [model["curve"]["rows"] for model in found["models"]] == [[50, 100]] * 2
    assert "Over 100 rows, " in (tmp_path / "r.html").read_text()


def test_links_that_cannot_be_written_are_refused_before_reading(run, tmp_path):
    (tmp_path / "loop.html").symlink_to(tmp_path / "loop.html")
    (tmp_path / "lost.html").symlink_to(tmp_path / "no" / "r.html")
    command = ("evaluate", tmp_path / "none.csv", "--target", "y", "--report")
    for path, message in (
        (tmp_path / "loop.html", "the link leads to itself"),
        (tmp_path / "lost.html", f"there is no folder {tmp_path / 'no'}"),
        (Path("/proc/r.html"), "/proc takes no files ("),
    ):
        if not path.parent.is_dir():
            continue  # a system without /proc
        code, _, err = run(*command, path)
        assert code == 2 and err.startswith(f"bspforest: --report {path}: {message}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_report_that_fails_late_leaves_the_scores(numbers, run, tmp_path):
    (tmp_path / "full.html").symlink_to("/dev/full")
    command = ("evaluate", numbers[0], "--target", "y", *FEW, "--json", tmp_path / "s.json")
    code, _, err = run(*command, "--report", tmp_path / "full.html")
    assert (code, err) == (1, f"bspforest: --report {tmp_path / 'full.html'}: No space left on device\n")
    assert json.loads((tmp_path / "s.json").read_text())["rows"] == 600


def test_two_outputs_in_one_file_are_refused(numbers, run, tmp_path):
    page = tmp_path / "r.html"
    (tmp_path / "link.html").symlink_to(page)
    command = ("evaluate", numbers[0], "--target", "y", *FEW, "--report", page)
    for other in (page, tmp_path / "link.html", tmp_path / "." / "r.html"):
        code, _, err = run(*command, "--json", other)
        assert code == 2 and f"--json and --report name the same file, {page}: one would overwrite the other" in err
    assert not page.exists()


def test_the_suffix_may_be_in_capitals(numbers, run, tmp_path):
    page = tmp_path / "R.HTML"
    assert run("evaluate", numbers[0], "--target", "y", *FEW, "--report", page)[0] == 0 and page.exists()


def test_a_report_is_replaced_at_once_and_not_announced_among_json(numbers, run, tmp_path):
    (tmp_path / "r.html").write_text("old")
    code, out, _ = run("evaluate", numbers[0], "--target", "y", *FEW, "--report", tmp_path / "r.html", "--json", "-")
    assert code == 0 and json.loads(out)["rows"] == 600
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


@pytest.mark.parametrize(
    ("label", "options"),
    [
        (lambda x: 5.5, ()),
        (lambda x: 1e9 + 1e7 * x + 0.5, ("--window", 5)),
        (lambda x: 1e-9 * x, ("--chunk-rows", 1)),
        (lambda x: 1e-9 * x, ("--chunk-rows", 1, "--prediction", "mean")),
        (lambda x: x + 0.1, ("--chunk-rows", 79)),
        (lambda x: x + 0.1, ("--bandwidth", 1, "--ridge", 1, "--feature-weights", "none", "--scaling", "minmax")),
        (lambda x: "same", ()),
        (lambda x: f"{x > 0.5}", ("--chunk-rows", 1)),
        (lambda x: f"{x > 0.5}", ("--cuts", "isotropic", "--chunk-rows", 79)),
    ],
)
def test_unusual_streams_have_a_report(label, options, run, tmp_path):
    rows = [[x, 1 - x**2, label(x)] for x in np.random.default_rng(0).random(80).tolist()]
    data = write_rows(tmp_path / "data.csv", ["a", "b", "y"], rows)
    task = "classification" if isinstance(rows[0][2], str) else "regression"
    command = ("evaluate", data, "--target", "y", "--task", task, "--trees", 3, "--chunk-rows", 20)
    code, _, err = run(*command, "--report", tmp_path / "r.html", *options)
    assert (code, err) == (0, "")
    page = (tmp_path / "r.html").read_text()
    assert not re.search(r"[\s\",(]-?(nan|inf)\b", page[page.index("<main") :])
