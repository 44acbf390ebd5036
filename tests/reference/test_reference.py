"""Test the reference: geometry against brute force, invariants of trees, and error messages.

Seeds are fixed. The statistical tests were seen to detect these mutations:

- uniform angles of lines, not weighted by edges: `test_lines_are_uniform`, two polygons of three;
- offsets of lines that are not uniform: `test_lines_are_uniform`, all three polygons;
- in a gap, a uniform angle instead of a uniform sine: `test_lines_between_two_hulls`, four cases of five;
- uniform pairs of dimensions, not weighted by perimeters: `test_hulls_in_all_pairs`, d = 4;
- rates that are not halved: `test_hulls_in_all_pairs`, `test_mean_number_of_cuts`;
- Mondrian thresholds beyond a box that are not uniform, or doubled rates: `test_mondrian_cuts_beyond_a_box`.
"""

from __future__ import annotations

import ast
from itertools import combinations
from pathlib import Path

import laws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.spatial import ConvexHull

import bspforest.reference as reference
from bspforest.reference import Box, Cut, PairHulls, Tree, draw_partition, make_box, make_polytope, order_polygon
from bspforest.reference.polygons import draw_line, draw_line_in_gap, find_gap, find_hull, perimeter

PENTAGON = np.array([[0.0, 0.0], [2.0, -0.3], [2.5, 1.0], [1.0, 1.4], [-0.2, 0.8]])


def test_reference_shares_no_code_with_the_engine():
    for path in Path(reference.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module.split(".")[0] in (
                    "__future__",
                    "collections",
                    "dataclasses",
                    "itertools",
                    "typing",
                ) or (node.module.startswith("scipy.spatial"))
            if isinstance(node, ast.ImportFrom):
                assert node.level < 2
            if isinstance(node, ast.Import):
                assert [name.name for name in node.names] == ["numpy"]


# ----------------------------------------------------------------------------------------------------------------------
# Polygons and lines


@settings(max_examples=100, deadline=None, derandomize=True)
@given(arrays(float, st.tuples(st.integers(1, 12), st.just(2)), elements=st.integers(-3, 3).map(float)))
def test_hulls_contain_their_points(points):
    """Points on a grid give hulls with points on their edges, segments and single points."""
    hull = find_hull(points)
    if len(hull) >= 3:
        for corner, edge in zip(hull, np.roll(hull, -1, axis=0) - hull, strict=True):
            side = edge[0] * (points - corner)[:, 1] - edge[1] * (points - corner)[:, 0]
            assert (side >= -1e-9).all()
    else:
        assert np.linalg.matrix_rank(points - points[0], tol=1e-9) == len(hull) - 1
        reach = np.linalg.norm(points[:, None] - points[None], axis=2).max()
        assert perimeter(hull) == pytest.approx(2 * reach)


def draw_lines_by_rejection(outer, inner, n, rng):
    """Draw lines that hit ``outer`` and miss ``inner``, by rejection from a disc; normals point outwards."""
    centre = outer.mean(axis=0)
    radius = np.linalg.norm(outer - centre, axis=1).max()
    lines = np.empty((0, 3))
    while len(lines) < n:
        angle = rng.uniform(0, 2 * np.pi, 100_000)
        normal = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        offset = normal @ centre + rng.uniform(-radius, radius, len(angle))
        above = (outer @ normal.T > offset).any(axis=0)
        kept = above & ((outer if inner is None else inner) @ normal.T < offset).all(axis=0)
        if inner is None:
            kept = above & (outer @ normal.T < offset).any(axis=0)
        lines = np.vstack([lines, np.column_stack([normal, offset])[kept]])
    return lines[:n]


def assert_same_distribution(lines, other):
    """Compare two samples of lines by their angles and their signed distances from two points."""
    for place in (np.zeros(2), np.array([1.5, 0.7])):
        heights = [sample[:, 2] - sample[:, :2] @ place for sample in (lines, other)]
        assert stats.ks_2samp(*heights).pvalue > 1e-3
    angles = [np.arctan2(sample[:, 1], sample[:, 0]) for sample in (lines, other)]
    assert stats.ks_2samp(*angles).pvalue > 1e-3


@pytest.mark.parametrize("polygon", [PENTAGON, PENTAGON[:3], PENTAGON[[0, 2]]], ids=["pentagon", "triangle", "segment"])
def test_lines_are_uniform(polygon):
    """Compare Algorithm 2, line 4, with rejection from a disc."""
    rng = np.random.default_rng(1)
    drawn = np.array([[*line.normal, line.offset] for line in (draw_line(polygon, rng) for _ in range(3000))])
    drawn *= rng.choice([-1, 1], len(drawn))[:, None]  # the opposite normal gives the same line
    assert_same_distribution(drawn, draw_lines_by_rejection(polygon, None, 20_000, rng))


GAPS = {
    "near": (PENTAGON, PENTAGON[[0, 1, 3, 4]]),
    "far": (np.vstack([PENTAGON, [[9.0, 4.0]]]), PENTAGON),
    "over a segment": (np.array([[0.0, 0.0], [2.0, 1.0], [0.5, 1.5]]), np.array([[0.0, 0.0], [2.0, 1.0]])),
    "over a point": (np.array([[0.0, 0.0], [2.0, 1.0]]), np.array([[2.0, 1.0]])),
    "all around": (2 * PENTAGON - PENTAGON.mean(axis=0), PENTAGON),
}


@pytest.mark.parametrize(("outer", "inner"), GAPS.values(), ids=GAPS)
def test_lines_between_two_hulls(outer, inner):
    """Compare Algorithm 6 with rejection; the measure of the lines is the difference of the perimeters."""
    rng = np.random.default_rng(2)
    outer, inner = find_hull(outer), find_hull(inner)
    gap = find_gap(outer, inner)
    assert gap.weights().sum() == pytest.approx(perimeter(outer) - perimeter(inner), abs=1e-12)
    drawn = np.array([[*line.normal, line.offset] for line in (draw_line_in_gap(gap, rng) for _ in range(3000))])
    assert ((inner @ drawn[:, :2].T).max(axis=0) <= drawn[:, 2]).all()
    assert ((outer @ drawn[:, :2].T).max(axis=0) >= drawn[:, 2]).all()
    assert_same_distribution(drawn, draw_lines_by_rejection(outer, inner, 20_000, rng))


def test_gap_is_empty_if_the_hulls_are_equal():
    assert find_gap(PENTAGON, PENTAGON).weights().sum() == 0
    hulls = PairHulls(np.random.default_rng(0).random((20, 3)))
    assert hulls.extended(np.full(3, 0.5)).rate_beyond(hulls) == 0


@pytest.mark.parametrize("d", [2, 4])
def test_hulls_in_all_pairs(d):
    """Rates are half the perimeters, pairs are proportional to them (Algorithm 5, line 7; Algorithm 6, line 1)."""
    rng = np.random.default_rng(d)
    X, x = rng.random((8, d)), rng.random(d) + 0.7
    inner, outer = PairHulls(X), PairHulls(X).extended(x)
    rows = np.vstack([X, x])
    assert inner.rate() == pytest.approx(laws.root_rate(X))
    assert outer.rate() == pytest.approx(laws.root_rate(rows))
    assert outer.rate_beyond(inner) == pytest.approx(laws.root_rate(rows) - laws.root_rate(X))
    pairs = list(combinations(range(d), 2))
    whole = np.array([ConvexHull(rows[:, pair]).area for pair in pairs])
    more = whole - [ConvexHull(X[:, pair]).area for pair in pairs]
    for weights, draw in (
        (whole, lambda: outer.draw_cut(1.0, rng)),
        (more, lambda: outer.draw_cut_beyond(inner, 1.0, rng)),
    ):
        cuts = [draw() for _ in range(500)]
        sides = np.array([cut.goes_right(rows) for cut in cuts])
        assert (sides.any(axis=1) & ~sides.all(axis=1)).all()
        if weights is more:  # only the new row is cut off
            assert (sides[:, :-1] == ~sides[:, -1:]).all()
        counts = [sum(cut.dims == pair for cut in cuts) for pair in pairs]
        if d > 2:
            assert stats.chisquare(counts, len(cuts) * weights / weights.sum()).pvalue > 1e-3


def test_mondrian_cuts_beyond_a_box():
    """Compare cuts that separate a row from a box with rejection among all cuts that cross the larger box."""
    rng = np.random.default_rng(6)
    X, x = rng.random((5, 3)), np.array([1.3, 0.5, -0.4])
    inner, outer = Box(X), Box(X).extended(x)
    cuts = [outer.draw_cut(1.0, rng) for _ in range(8000)]
    missing = [cut for cut in cuts if len(np.unique(cut.goes_right(X))) == 1]
    assert outer.rate_beyond(inner) == pytest.approx(outer.rate() - inner.rate())
    assert stats.binomtest(len(missing), len(cuts), outer.rate_beyond(inner) / outer.rate()).pvalue > 1e-3
    drawn = [outer.draw_cut_beyond(inner, 1.0, rng) for _ in range(3000)]
    table = [[sum(cut.dims == (k,) for cut in sample) for k in range(3)] for sample in (drawn, missing)]
    assert table[0][1] == table[1][1] == 0  # x is inside the box in dimension 1
    assert stats.chi2_contingency(np.array(table)[:, [0, 2]]).pvalue > 1e-3
    for k in (0, 2):
        offsets = [[cut.offset for cut in sample if cut.dims == (k,)] for sample in (drawn, missing)]
        assert stats.ks_2samp(*offsets).pvalue > 1e-3


# ----------------------------------------------------------------------------------------------------------------------
# Polytopes


def make_cross_polytope(d):
    """Return a polytope that is not simple: in three dimensions, four facets meet in each vertex."""
    return make_polytope(np.vstack([np.eye(d), -np.eye(d)]) + 0.01 * np.random.default_rng(d).random(d))


DOMAINS = [
    make_box([0, 0], [1, 2]),
    make_polytope(PENTAGON),
    make_box(np.zeros(3), np.ones(3)),
    make_cross_polytope(3),
    make_polytope(np.random.default_rng(0).normal(size=(12, 3))),
    make_box(np.zeros(4), np.ones(4)),
    make_cross_polytope(4),
    make_box(np.zeros(5), np.ones(5)),
]


@pytest.mark.parametrize(
    "domain", DOMAINS, ids=lambda domain: f"{len(domain.vertices)} in {domain.vertices.shape[1]}-D"
)
@pytest.mark.parametrize("shape", [PairHulls, Box])
def test_split_polytopes_add_up(domain, shape):
    """Split six times, each time the smaller half: volumes add up, and all vertices are extreme points."""
    rng = np.random.default_rng(len(domain.vertices))
    d = domain.vertices.shape[1]
    for _ in range(6):
        cut = shape(domain.vertices).draw_cut(0.0, rng)
        left, right, section = domain.split(cut)
        assert np.abs(cut.heights(section)).max() < 1e-12
        assert left.volume + right.volume == pytest.approx(domain.volume, rel=1e-9)
        assert (cut.heights(left.vertices) <= 1e-12).all() and (cut.heights(right.vertices) >= -1e-12).all()
        for half in (left, right):
            assert len(ConvexHull(half.vertices).vertices) == len(half.vertices)
            assert (half.facets.sum(axis=0) >= d).all() and (half.facets.sum(axis=1) >= d).all()
        domain = min(left, right, key=lambda half: half.volume)


def test_faces_are_ordered_polygons():
    rng = np.random.default_rng(3)
    block = draw_partition(make_box(np.zeros(3), np.ones(3)), 0.7, rng)
    assert len(block.cut_blocks()) > 3
    for each in block.walk():
        area = sum(ConvexHull(face @ find_plane(face)).volume for face in each.polytope.faces())
        assert area == pytest.approx(ConvexHull(each.polytope.vertices).area)
        for face in each.polytope.faces():  # ordered: the perimeter is that of the hull
            around = np.linalg.norm(np.roll(face, -1, axis=0) - face, axis=1).sum()
            assert around == pytest.approx(ConvexHull(face @ find_plane(face)).area)
    section = order_polygon(block.section)
    assert ConvexHull(section @ find_plane(section)).volume > 0


def find_plane(face):
    """Return two orthonormal axes of the plane of a polygon."""
    return np.linalg.svd(face - face.mean(axis=0))[2][:2].T


@pytest.mark.parametrize("tau", [0.7, 1.4])
@pytest.mark.parametrize(
    "polygon", [np.array([[0, 0], [1, 0], [1, 1], [0, 1]]), PENTAGON / 2], ids=["square", "pentagon"]
)
def test_mean_number_of_cuts(polygon, tau):
    """In the plane it is L τ / 2 + π A τ² / 4 for a domain of perimeter L and area A, by Crofton's formula."""
    domain = make_polytope(polygon)
    rng = np.random.default_rng(7)
    counts = np.array([len(draw_partition(domain, tau, rng).cut_blocks()) for _ in range(400)])
    expected = perimeter(find_hull(domain.vertices)) * tau / 2 + np.pi * domain.volume * tau**2 / 4
    assert abs(counts.mean() - expected) < 3 * counts.std() / np.sqrt(len(counts))


def test_partition_at_earlier_times():
    block = draw_partition(make_box([0, 0], [1, 1]), 3.0, 5)
    cuts = block.cut_blocks()
    times = [each.cut.time for each in cuts]
    assert times == sorted(times) and len(times) > 5
    for k, each in enumerate(cuts):
        assert len(block.leaves(each.cut.time)) == k + 2
        assert all(child.parent is each for child in each.children)
    x = np.array([0.3, 0.6])
    leaf = block.find(x)
    assert leaf in block.leaves() and ConvexHull(np.vstack([leaf.polytope.vertices, x])).volume == pytest.approx(
        leaf.polytope.volume
    )


# ----------------------------------------------------------------------------------------------------------------------
# Trees


def check_tree(tree):
    """Check that children partition their parent's rows, hulls are tight, and pending cuts are later than the budget."""
    for node in tree.root.walk():
        fresh = type(node.hulls)(node.points)
        assert node.hulls.rate() == pytest.approx(fresh.rate(), rel=1e-9, abs=1e-12)
        if node.children:
            right = node.cut.goes_right(node.points)
            for child, side in zip(node.children, (~right, right), strict=True):
                assert side.any()
                assert sorted(child.points.tolist()) == sorted(node.points[side].tolist())
                assert child.cut is None or child.cut.time > node.cut.time
            assert node.cut.time < tree.tau
        elif len(node.points) >= tree.min_samples_split and len(np.unique(node.points, axis=0)) > 1:
            assert node.cut.time >= tree.tau or tree.refinement == "redraw"


@pytest.mark.parametrize("refinement", ["exact", "redraw"])
@pytest.mark.parametrize("shape", [PairHulls, Box])
@pytest.mark.parametrize("min_samples_split", [2, 4])
def test_trees_keep_their_invariants(refinement, shape, min_samples_split):
    """Rows lie on a grid, and some are identical."""
    rng = np.random.default_rng(11)
    X = np.round(rng.random((30, 3)), 1)
    X[5:9] = X[4]
    for budget in (lambda n: 0.3 * n**0.3, np.inf):
        tree = Tree(budget, refinement=refinement, shape=shape, min_samples_split=min_samples_split, random_state=rng)
        for x in X[rng.permutation(30)]:
            tree.learn(x)
            check_tree(tree)
        assert len(tree.root.points) == 30
    if refinement == "exact":
        tree.build(X)
        check_tree(tree)
        leaf = tree.root.find(X[4])
        assert (leaf.points == X[4]).all(axis=1).sum() >= 5


def test_one_dimension():
    X = np.random.default_rng(0).random((20, 1))
    check_tree(Tree(3.0, shape=Box, random_state=0).build(X))
    with pytest.raises(ValueError, match=r"two dimensions or more, got 1; with one, use bspforest\.reference\.Box"):
        Tree(3.0).learn(X[0])


# ----------------------------------------------------------------------------------------------------------------------
# Errors


def test_error_messages():
    square = make_box([0, 0], [1, 1])
    for budget in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"budget must be a finite number, 0 or more, got {budget}"):
            draw_partition(square, budget)
    with pytest.raises(ValueError, match="low must be below high in each of two dimensions or more"):
        make_box([0, 1], [1, 1])
    with pytest.raises(ValueError, match="3 points do not span 2 dimensions"):
        make_polytope([[0, 0], [1, 1], [2, 2]])
    with pytest.raises(ValueError, match=r"d at least 2, got shape \(3, 1\)"):
        make_polytope([[0], [1], [2]])
    with pytest.raises(ValueError, match="points must be finite"):
        make_polytope([[0, 0], [1, np.nan], [2, 1]])
    with pytest.raises(ValueError, match="does not cross"):
        square.split(Cut(0.0, (0, 1), np.array([1.0, 0.0]), 5.0))
    with pytest.raises(ValueError, match="two and three dimensions only, this polytope has 4"):
        make_box(np.zeros(4), np.ones(4)).faces()
    with pytest.raises(ValueError, match='refinement must be "exact" or "redraw", got \'both\''):
        Tree(1.0, refinement="both")
    with pytest.raises(ValueError, match="min_samples_split must be 2 or more, got 1"):
        Tree(1.0, min_samples_split=1)
    with pytest.raises(ValueError, match="build needs refinement="):
        Tree(1.0, refinement="redraw").build(np.zeros((3, 2)))


def test_rejected_rows_change_nothing():
    tree = Tree(lambda n: -float(n == 4) + n, random_state=0)
    for x in np.random.default_rng(0).random((3, 2)):
        tree.learn(x)
    for row, message in (
        ([0.5, np.nan], "rows must be finite"),
        ([0.5], r"expected an array of shape \(2\), got shape \(1,\)"),
        ([[0.5, 0.5]], r"expected an array of shape \(2\), got shape \(1, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            tree.learn(row)
    tree.learn(np.full(2, 0.5))
    assert (tree.tau, len(tree.root.points)) == (3.0, 4)
    tree.budget = 1.0
    with pytest.raises(ValueError, match=r"not decrease, got 1\.0 for 5 rows after 3\.0"):
        tree.learn(np.full(2, 0.5))
    assert (tree.tau, len(tree.root.points)) == (3.0, 4)
