"""``bspforest explore`` in a browser: every number on the page is that of a forest."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from browsers import open_page

from bspforest.cli.main import main
from bspforest.explore import ExploreServer, PlaneStream, Session, make_stream

pytestmark = pytest.mark.long

LEFT, RIGHT = "bsp-ridge", "mondrian-mean"
TIMEOUT = 30_000  # milliseconds, for slow machines


@contextmanager
def serve(session):
    """Yield the address of a running server."""
    with ExploreServer(session) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


class ExplorePage:
    """A page and the session behind it."""

    def __init__(self, watched, session):
        self.page, self.problems, self.session = watched.page, watched.problems, session
        self.page.set_default_timeout(TIMEOUT)

    def wait(self):
        """Wait until the page has shown all that it has asked for."""
        self.page.wait_for_selector("body[data-busy=no]")

    def wait_until(self, condition):
        """Wait for a condition, given to the page as a function: it does not allow texts to be evaluated."""
        self.page.wait_for_function(f"() => {condition}")

    def do(self, action):
        """Do something, and wait until the page shows it."""
        action()
        self.wait()

    def read(self, name, panel=0):
        """Return the numbers of a panel, as the page has them."""
        return [float(part) for part in self.page.get_attribute(f"#{name}-{panel}", "value").split()]

    def text(self, selector):
        return self.page.inner_text(selector)

    @property
    def forests(self):
        models = [self.page.input_value(f"#model-{k}") for k in range(2)]
        return [self.session.learners[model].forest for model in models]

    def to_pixels(self, x, y, panel=0):
        """Return where a place of the plane is on the canvas."""
        return self.page.evaluate("([k, x, y]) => planes[k].toPixels(x, y)", [panel, x, y])

    def click(self, x, y, panel=0):
        at = self.to_pixels(x, y, panel)
        self.do(lambda: self.page.click(f"#plane-{panel}", position={"x": at[0], "y": at[1]}))

    def check_numbers(self):
        """Compare the numbers on the page with the forests."""
        for k, forest in enumerate(self.forests):
            assert self.read("held", k) == [forest.n_samples_] == [len(self.session.rows)]
        text = f"{len(self.session.rows):,}"
        assert self.text("#held-0") == self.text("#held-1") == text


@contextmanager
def explore(browser, stream="bumps", n=20, **how):
    session = Session(make_stream(stream, 1) if isinstance(stream, str) else stream, n_trees=5)
    if n:
        session.learn(n, (LEFT, RIGHT))
    with serve(session) as url, open_page(browser, **how) as watched:
        page = ExplorePage(watched, session)
        page.do(lambda: watched.page.goto(url))
        yield page


def find_free_place(session):
    """Return a place that is far from all rows."""
    rng = np.random.default_rng(0)
    low, high = session.stream.limits
    places = low + (high - low) * rng.uniform(0.1, 0.9, (200, 2))
    rows = np.array(list(session.rows.values()))[:, :2]
    gaps = np.linalg.norm((places[:, None] - rows) / (high - low), axis=2).min(axis=1)
    return places[gaps.argmax()]


def test_adding_and_forgetting_rows_by_a_click(browser):
    with explore(browser) as page:
        page.check_numbers()
        x, y = find_free_place(page.session)
        page.page.fill("#number", "3.5")
        page.click(x, y)
        assert [*page.session.rows] == [*range(21)]
        assert page.session.rows[20] == pytest.approx((x, y, 3.5), abs=0.005)
        assert page.text("#status").startswith("Row 20 added at x = ")
        assert page.text("#status").endswith("21 rows held.")
        page.check_numbers()
        row = page.session.rows[7]
        page.click(row.x, row.y, panel=1)
        assert [*page.session.rows] == [k for k in range(21) if k != 7]
        assert page.text("#status").startswith("Row 7 forgotten")
        page.check_numbers()
        page.do(lambda: page.page.click("#undo"))
        page.do(lambda: page.page.click("#undo"))
        assert [*page.session.rows] == [k for k in range(20) if k != 7] + [21]
        assert page.page.is_disabled("#undo")


def test_numbers_are_those_of_the_forests(browser):
    with explore(browser, n=30) as page:
        page.page.hover("#plane-0", position={"x": 150, "y": 100})
        page.wait()
        x, y = page.page.evaluate("view.place")
        for k, forest in enumerate(page.forests):
            mean, std = forest.predict([[x, y]], return_std=True)
            assert page.read("place", k) == [mean[0], std[0]]
            leaves = np.mean([tree.n_leaves for tree in forest.trees_])
            assert page.read("leaves", k) == [pytest.approx(leaves)]
            errors = page.session.learners[(LEFT, RIGHT)[k]].errors
            assert page.read("error", k) == [errors.latest]
            shown = [float(part.replace("−", "-")) for part in page.text(f"#place-{k}").split(" ± ")]
            assert shown == pytest.approx([mean[0], std[0]], rel=0.005)
        assert "Honest RMSE" in page.text("#curve-title")


def test_picture_is_the_forest(browser):
    """The colour of a pixel in the middle of a place of the grid is that of the prediction there."""
    with explore(browser, n=30) as page:
        page.do(lambda: page.page.uncheck("#cuts"))
        colours = page.page.evaluate("[...planes[0].image.getContext('2d').getImageData(0, 0, 64, 64).data]")
        low, high = page.session.stream.limits
        place = low + (high - low) * [10.5 / 64, 1 - 20.5 / 64]
        value = page.forests[0].predict([place])[0]
        expected = page.page.evaluate("(v) => colourValue(v, 0, state.stream, 'prediction')", value)
        at = 4 * (20 * 64 + 10)
        assert colours[at : at + 3] == pytest.approx(expected, abs=1.01)


def test_sliding_through_budgets(browser):
    with explore(browser, n=40) as page:
        assert page.text("#time").startswith("all cuts:")
        seen = []
        for value in (700, 350, 0):
            page.do(lambda value=value: page.page.fill("#budget", str(value)))
            time = float(page.text("#time").split(":")[0].removeprefix("time "))
            seen.append(page.read("leaves"))
            exact = page.page.evaluate("state.time")
            assert time == pytest.approx(exact, rel=0.01)
            assert page.read("leaves", 1) == [page.session.learners[RIGHT].count_leaves(exact)]
            assert "leaves" in page.page.get_attribute("#budget", "aria-valuetext")
        assert [40.0] > seen[0] > seen[1] > seen[2] == [1.0]
        page.page.focus("#budget")
        page.do(lambda: page.page.keyboard.press("End"))
        assert page.text("#time").startswith("all cuts: 40 |") and page.read("leaves") == [40.0]


def test_one_tree_and_uncertainty(browser):
    with explore(browser, n=30) as page:
        page.do(lambda: page.page.check("input[value=tree]"))
        page.do(lambda: page.page.fill("#tree", "4"))
        page.do(lambda: page.page.press("#tree", "Enter"))
        tree = page.forests[1].trees_[3]
        assert page.read("leaves", 1) == [tree.n_leaves]
        assert page.page.evaluate("planes[1].panel.cells.polygons.length") == tree.n_leaves
        assert page.page.evaluate("planes[1].panel.cuts.length") == tree.n_leaves - 1
        page.do(lambda: page.page.check("input[value=uncertainty]"))
        assert "standard deviation" in page.text("#legend")
        page.page.fill("#tree", "99")
        page.page.press("#tree", "Enter")
        assert page.text("#status") == "The number of the tree must be from 1 to 5."


def test_switching_forests(browser):
    with explore(browser, n=15) as page:
        page.do(lambda: page.page.select_option("#model-1", "bsp-mean"))
        assert set(page.session.learners) == {LEFT, "bsp-mean"}
        assert page.text("#error-1") == "–"
        page.check_numbers()
        page.do(lambda: page.page.click("#step"))
        assert page.text("#status") == "1 row arrived; 16 rows held."
        assert page.read("error", 1) == [page.session.learners["bsp-mean"].errors.latest]


def test_keyboard(browser):
    with explore(browser, "moons", n=10) as page:
        keys = page.page.keyboard
        for _ in range(20):  # every control can be reached
            keys.press("Tab")
            if page.page.evaluate("document.activeElement.id") == "plane-0":
                break
        assert page.page.evaluate("document.activeElement.id") == "plane-0"
        assert page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        low, high = page.session.stream.limits
        page.do(lambda: keys.press("Shift+ArrowRight"))
        page.do(lambda: keys.press("ArrowUp"))
        x, y = low + (high - low) * [0.6, 0.51]
        assert page.page.evaluate("view.place") == pytest.approx([x, y])
        shares = page.forests[0].predict_proba([[x, y]])[0]
        assert page.read("place") == pytest.approx(shares, rel=1e-12)
        status = page.text("#status")
        assert ": left " in status and "; right " in status and "Nearest: row " in status
        page.page.select_option("#class", "1")
        page.page.focus("#plane-0")
        page.do(lambda: keys.press("Enter"))
        assert page.session.rows[10] == pytest.approx((x, y, 1.0))
        assert page.text("#status") == f"Row 10 added at x = {x:.3g}, y = {y:.3g}; 11 rows held."
        page.do(lambda: keys.press("Delete"))
        assert [*page.session.rows] == [*range(10)]
        keys.press(" ")
        page.page.wait_for_selector("#play[aria-pressed=true]")
        page.wait_until("state.held >= 13")
        keys.press(" ")
        page.page.wait_for_selector("#play[aria-pressed=false]")
        page.wait()
        page.check_numbers()


def test_playing_to_another_stream(browser):
    with explore(browser, n=0) as page:
        assert page.text("#held-0") == "0" and page.text("#error-0") == "–"
        page.page.select_option("#speed", "fastest")
        page.page.click("#play")
        page.wait_until("state.held >= 60")
        page.page.click("#play")
        page.wait()
        page.check_numbers()
        assert page.page.evaluate("state.panels[0].curve.length") == len(page.session.rows) - 1
        page.do(lambda: page.page.select_option("#stream", "spirals"))
        assert page.session.stream.name == "spirals" and not page.session.rows
        assert page.page.is_visible("#class") and not page.page.is_visible("#number")


def test_holding_the_latest_rows(browser):
    with explore(browser, "drift", n=60) as page:
        page.do(lambda: page.page.select_option("#window", "50"))
        assert page.text("#status") == "Holding the latest 50 rows from now on; 50 rows held."
        page.do(lambda: page.page.click("#step"))
        assert [*page.session.rows] == [*range(12, 61)], "rows leave in blocks"
        page.check_numbers()


def test_what_comes_too_late_is_dropped(browser):
    """A row that was clicked while the page was busy may have gone by then, and the plane may be another one."""
    with explore(browser) as page:
        page.do(lambda: page.page.evaluate("() => { forget(3); forget(3); }"))
        assert page.text("#status") == "Too late: the rows have changed meanwhile."
        assert [*page.session.rows] == [k for k in range(20) if k != 3]
        page.do(lambda: page.page.evaluate("() => { ask('reset', { stream: 'moons' }); add([0.5, 0.5]); forget(3); }"))
        assert page.session.stream.name == "moons" and not page.session.rows


def test_a_page_of_an_earlier_start_shows_the_new_one(browser):
    """Another tab has chosen another stream: a click here must not reach its rows."""
    with explore(browser) as page:
        row = page.session.rows[3]
        page.session.reset("moons")
        page.session.learn(10, (LEFT, RIGHT))
        page.click(row.x, row.y)
        assert "another page has started the stream" in page.text("#status")
        assert page.problems and all("409" in problem for problem in page.problems)
        page.problems.clear()
        assert [*page.session.rows] == [*range(10)]
        assert page.page.input_value("#stream") == "moons" and page.page.is_visible("#class")
        page.check_numbers()
        page.session.reset("waves")
        page.do(lambda: page.page.hover("#plane-0", position={"x": 150, "y": 100}))
        assert page.page.input_value("#stream") == "waves"
        assert page.problems == []


def test_adding_a_row_on_top_of_another(browser):
    with explore(browser) as page:
        row = page.session.rows[3]
        x, y = page.to_pixels(row.x, row.y)
        page.do(lambda: page.page.hover("#plane-0", position={"x": x, "y": y}))
        assert page.page.get_attribute("#plane-0", "title").startswith("Row 3, label ")
        page.do(lambda: page.page.click("#plane-0", position={"x": x, "y": y}, modifiers=["Shift"]))
        assert [*page.session.rows] == [*range(21)]
        page.check_numbers()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_fits_narrow_and_wide_screens(browser, dark, width):
    with explore(browser, "spirals", n=15, dark=dark, width=width) as page:
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = [page.page.locator(f"#plane-{k}").bounding_box() for k in range(2)]
        assert (boxes[0]["y"] == boxes[1]["y"]) == (width == 1280)
        ground = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(18, 22, 27)" if dark else "rgb(246, 245, 241)")


def test_every_control_has_a_name(browser):
    with explore(browser) as page:
        nameless = page.page.evaluate(
            """() => [...document.querySelectorAll('button, select, input, canvas')]
                .filter((control) => control.id && control.offsetParent)
                .filter((control) => !(control.textContent.trim() && control.tagName === 'BUTTON')
                    && !control.getAttribute('aria-label') && !(control.labels && control.labels[0].textContent.trim()))
                .map((control) => control.id)"""
        )
        assert nameless == []


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1e-6), (0.0, 1e12), (1e9, 1e-3), (1e17, 100.0)])
def test_columns_of_any_scale(browser, offset, scale):
    """Cuts are where they are in columns of scale 1, and the numbers on the axes fit and differ."""
    X = np.random.default_rng(0).random((30, 2))
    with explore(browser, PlaneStream("s", "S", offset + X * scale, X[:, 0]), n=30) as page:
        ends = page.page.evaluate(
            "planes[0].panel.cuts.map((cut) => planes[0].toPixels(cut[0], cut[1]).map(Math.round))"
        )
        area = page.page.evaluate("planes[0].area")
        assert len(ends) == 29 or offset == 1e17
        assert all(area["x"] - 1 <= x <= area["x"] + area["width"] + 1 for x, _ in ends)
        assert len({tuple(end) for end in ends}) > (20 if offset < 1e17 else 2)
        for ticks in page.page.evaluate("planes[0].ticks"):
            texts = [text for _, text in ticks]
            assert texts and len(set(texts)) == len(texts)
        longest = page.page.evaluate("measureTicks(planes[0].canvas.getContext('2d'), planes[0].ticks[1])")
        assert longest > 10 and 18 + longest < area["x"]  # beside the name of the axis
        ends = page.page.evaluate(
            """() => {
                const context = planes[0].canvas.getContext('2d');
                return planes[0].ticks[0].map(([tick, text]) =>
                    planes[0].placeTick(context, tick, text) + measureTicks(context, [[tick, text]]) / 2);
            }"""
        )
        assert max(ends) <= page.page.evaluate("planes[0].canvas.clientWidth")


def test_labels_that_are_all_alike_and_large(browser):
    X = np.random.default_rng(0).random((30, 2))
    with explore(browser, PlaneStream("s", "S", X, np.full(30, 1e17)), n=5) as page:
        page.do(lambda: page.page.click("#step"))
        assert page.text("#held-0") == "6" and "1.5e17" in page.text("#legend")
        assert page.page.evaluate("ramps.viridis(NaN)") == page.page.evaluate("ramps.viridis(0)")


def test_the_page_goes_on_after_an_exception(browser):
    with explore(browser) as page:
        page.page.evaluate("() => { window.kept = drawCurve; drawCurve = () => { throw new Error('no pen'); }; }")
        page.do(lambda: page.page.click("#step"))
        assert "no pen" in page.text("#status")
        assert any("no pen" in problem for problem in page.problems)
        page.problems.clear()
        page.page.evaluate("() => { drawCurve = window.kept; }")
        page.do(lambda: page.page.click("#step"))
        assert page.text("#status") == "1 row arrived; 22 rows held."


@pytest.mark.parametrize("width", [390, 1280])
def test_long_and_turned_names(browser, width):
    names = (*("species " + "x" * 200 + f" {k}" for k in range(6)), "\u202eevil", "שלום")
    rng = np.random.default_rng(0)
    stream = PlaneStream("s", "S" * 99, rng.random((40, 2)), np.arange(40) % 8.0, names, ("w" * 500, "h" * 500), "kind")
    with explore(browser, stream, n=20, width=width) as page:
        chips = page.page.locator("#legend bdi")
        shown = chips.all_inner_texts()
        assert len(set(shown)) == 8 and max(map(len, shown)) <= 42 and "\u202e" not in "".join(shown)
        assert chips.first.get_attribute("title") == names[0]
        assert page.page.evaluate("getComputedStyle(document.querySelector('#legend bdi')).unicodeBidi") == "isolate"
        page.page.hover("#plane-0", position={"x": 150, "y": 100})
        page.wait()
        assert len(page.text(".where")) < 140
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        page.do(lambda: page.page.click("#step"))
        assert page.page.locator("#status").bounding_box()["width"] > 100


def test_any_csv_file(browser, tmp_path, monkeypatch, capsys):
    """The command reads the file, prints the address, and stops at Ctrl-C."""
    path = tmp_path / "plants.csv"
    rng = np.random.default_rng(2)
    rows = [(a, b, "oak" if a > 2 * b else "<i>elm</i>") for a, b in rng.random((40, 2)).round(4) * [10, 5]]
    lines = [f"{a},2024-01-01,{b},{kind}" for a, b, kind in rows]
    path.write_text("\n".join(["height,day,width,kind", *lines, "1.5,2024-01-01,,oak"]))

    serve_forever = ExploreServer.serve_forever

    def look(server):
        thread = threading.Thread(target=serve_forever, args=(server, 0.02))
        thread.start()
        try:
            with open_page(browser) as watched:
                page = ExplorePage(watched, server.session)
                page.do(lambda: watched.page.goto(server.url))
                assert watched.page.input_value("#stream") == "file plants.csv"
                for _ in range(5):
                    page.do(lambda: watched.page.click("#step"))
                page.check_numbers()
                assert server.session.rows[4][:2] == rows[4][:2]
                assert "<i>elm</i>" in page.text("#legend") and "oak" in page.text("#legend")
                page.page.hover("#plane-0", position={"x": 150, "y": 100})
                page.wait()
                assert "At height = " in page.text(".where")
        finally:
            server.shutdown()
            thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(ExploreServer, "serve_forever", look)
    code = main(
        ["explore", str(path), "--target", "kind", "--columns", "height", "width", "--trees", "5", "--no-browser"]
    )
    shown = capsys.readouterr().out
    assert code == 0
    assert "Open http://127.0.0.1:" in shown and "1 row left out, with a gap in 'height' or 'width'" in shown
    assert shown.endswith("Stopped after 5 rows. Nothing was saved.\n")
