"""Reports of ``bspforest evaluate`` in a browser: nothing goes wrong, and the numbers are the forest's."""

from __future__ import annotations

import numpy as np
import pytest
from browsers import open_page
from csv_files import write_rows
from sklearn import metrics

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.cli.main import main

pytestmark = pytest.mark.long

LONG = "a_column_whose_name_is_longer_than_the_screen_of_a_telephone_is_wide_and_has_no_spaces"
CHUNK, ROWS, CHANGE = 50, 1200, 800


def make_data():
    """Return features, numbers and classes, which both change at a row."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, 3))
    turned = np.where(np.arange(ROWS) < CHANGE, X[:, 0], 1 - X[:, 0])
    numbers = 5 * turned + X[:, 1] + 0.2 * rng.normal(size=ROWS)
    return X, numbers, np.where(turned > 0.5, "yes", "no")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Return the addresses of a report of regression and one of classification."""
    folder = tmp_path_factory.mktemp("reports")
    X, numbers, classes = make_data()
    pages = {}
    for task, y in (("regression", numbers.tolist()), ("classification", classes)):
        rows = [[*row, label] for row, label in zip(X.tolist(), y, strict=True)]
        data = write_rows(folder / f"{task}.csv", ["a", "b", LONG, "label"], rows)
        page = folder / f"{task}.html"
        options = [
            "--trees",
            "5",
            "--chunk-rows",
            f"{CHUNK}",
            "--score-window",
            "200",
            "--against",
            "no-change,majority",
        ]
        assert main(["evaluate", str(data), "--target", "label", *options, "--report", str(page)]) == 0
        pages[task] = page.as_uri()
    return pages


def predict_and_learn(forest, X, y, predict, **first):
    """Return predictions of each chunk, made before it was learned."""
    answers = []
    for start in range(0, ROWS, CHUNK):
        rows = slice(start, start + CHUNK)
        if start:
            answers.append(predict(forest, X[rows]))
        forest.partial_fit(X[rows], y[rows], **first)
    return np.concatenate(answers)


def read_tiles(page):
    """Return the key figures as they are shown, and their exact values, by name."""
    tiles = page.locator(".tiles li")
    names = tiles.locator(".name").all_inner_texts()
    shown = [text.replace("\xa0", " ") for text in tiles.locator("data").all_inner_texts()]
    exact = tiles.locator("data").evaluate_all("tiles => tiles.map(tile => Number(tile.value))")
    return dict(zip(names, zip(shown, exact, strict=True), strict=True))


def test_numbers_of_a_regression_are_the_forests(browser, reports):
    X, y, _ = make_data()
    forest = BSPForestRegressor(5, random_state=0)
    both = predict_and_learn(
        forest, X, y, lambda forest, rows: np.column_stack([forest.predict(rows), forest.predict_quantiles(rows)])
    )
    truth, predicted = y[CHUNK:], both[:, 0]
    inside = np.mean((both[:, 1] <= truth) & (truth <= both[:, 3]))
    expected = {
        "Mean error": metrics.mean_absolute_error(truth, predicted),
        "RMSE": metrics.root_mean_squared_error(truth, predicted),
        "Explained": metrics.r2_score(truth, predicted),
        "In 90 % intervals": inside,
        "Mean error lately": np.abs(truth - predicted)[-200:].mean(),
    }
    with open_page(browser) as watched:
        watched.page.goto(reports["regression"])
        tiles = read_tiles(watched.page)
        for name, value in expected.items():
            assert tiles[name.replace("90 %", "90\xa0%")][1] == pytest.approx(value, rel=1e-9), name
        assert tiles["Mean error"][0] == f"{expected['Mean error']:.4f}"
        assert f"Over {ROWS - CHUNK:,} rows" in watched.page.inner_text(".verdict")
        check_drift_and_features(watched.page, forest)


def test_numbers_of_a_classification_are_the_forests(browser, reports):
    X, _, y = make_data()
    forest = BSPForestClassifier(5, random_state=0)
    probabilities = predict_and_learn(
        forest, X, y, lambda forest, rows: forest.predict_proba(rows), classes=["no", "yes"]
    )
    truth, predicted = y[CHUNK:], np.array(["no", "yes"])[probabilities.argmax(axis=1)]
    accuracy = metrics.accuracy_score(truth, predicted)
    with open_page(browser) as watched:
        watched.page.goto(reports["classification"])
        tiles = read_tiles(watched.page)
        assert tiles["Correct"] == (f"{100 * accuracy:.1f} %", pytest.approx(accuracy))
        assert tiles["Kappa"][1] == pytest.approx(metrics.cohen_kappa_score(truth, predicted))
        assert tiles["Correct lately"][1] == pytest.approx(
            np.mean(truth == predicted, where=np.arange(len(truth)) >= len(truth) - 200)
        )
        assert f"{100 * accuracy:.1f} %" in watched.page.inner_text(".verdict").replace("\xa0", " ")
        cells = watched.page.locator(".cell-count").all_text_contents()
        counts = metrics.confusion_matrix(truth, predicted)
        assert [int(cell.replace(",", "")) for cell in cells] == counts.ravel().tolist()
        check_drift_and_features(watched.page, forest)


def check_drift_and_features(page, forest):
    """Check that the change is marked, and that importances and revisions are the forest's."""
    (mark,) = page.locator(".drifts li").all_inner_texts()
    row = int(mark.split("row ")[1].split()[0].replace(",", ""))
    assert abs(row - CHANGE) <= 64
    assert page.locator(".picture.wide .badge").first.is_visible()
    shares = page.locator(".shares data").evaluate_all("shares => shares.map(share => Number(share.value))")
    np.testing.assert_allclose(shares, np.sort(forest.feature_importances_)[::-1], rtol=1e-9)
    revised = page.locator(".words tbody th").all_inner_texts()
    assert [int(rows.replace(",", "")) for rows in revised] == [r.n_samples_seen for r in forest.revisions_]


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_pages_fit_and_can_be_read(browser, reports, task, width, dark):
    with open_page(browser, dark=dark, width=width) as watched:
        page = watched.page
        page.goto(reports[task])
        for is_open in (False, True):
            page.evaluate("open => document.querySelectorAll('details').forEach(box => { box.open = open; })", is_open)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shown = "narrow" if width == 390 else "wide"
        assert page.locator(f".picture.{shown} svg").first.is_visible()
        assert not page.locator(f".picture.{'wide' if shown == 'narrow' else 'narrow'} svg").first.is_visible()
        outside = page.evaluate(FIND_OUTSIDE)
        assert outside == []
        assert page.evaluate(FIND_CONTRAST, "body") > 7
        assert page.evaluate(FIND_CONTRAST, "figcaption") > 4.5


# Texts of pictures that are cut off or hardly legible.
FIND_OUTSIDE = """() => [...document.querySelectorAll('svg text')].filter(text => {
    const svg = text.ownerSVGElement.getBoundingClientRect(), box = text.getBoundingClientRect();
    if (!svg.width || !box.width) return false;
    const scale = svg.width / text.ownerSVGElement.viewBox.baseVal.width;
    return box.left < svg.left - 1 || box.right > svg.right + 1 || box.top < svg.top - 1 || box.bottom > svg.bottom + 1
        || scale * parseFloat(getComputedStyle(text).fontSize) < 8.5;
}).map(text => text.textContent)"""

# The contrast of a text with the first background behind it that is not transparent, as WCAG defines it.
FIND_CONTRAST = """selector => {
    const read = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
    let box = document.querySelector(selector);
    const text = read(getComputedStyle(box).color);
    while ((read(getComputedStyle(box).backgroundColor)[3] ?? 1) === 0) box = box.parentElement;
    const [a, b] = [text, read(getComputedStyle(box).backgroundColor)].map(light).sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
}"""


def test_numbers_show_under_the_mouse_and_on_paper(browser, reports):
    with open_page(browser) as watched:
        page = watched.page
        page.goto(reports["regression"])
        band = page.locator(".picture.wide .band").nth(5)
        assert "BSP forest: " in band.locator("title").text_content()
        page.emulate_media(media="print")
        assert page.locator(".verdict").is_visible() and not page.locator("summary").first.is_visible()
