"""Draw every display of bspforest on a light and a dark background, and write the figures to a folder.

``prices``, the map of house prices, needs the dataset ``uk_pricepaid_ew_monthly2018.npz`` (``X``: latitude and longitude,
``y``: logarithm of the price; from HM Land Registry's Price Paid Data, Open Government Licence v3.0) in the folder named by
BSPFOREST_DATA. Without it, this figure is skipped.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris, make_friedman1, make_moons

from bspforest import BSPForestClassifier, BSPForestRegressor
from bspforest.datasets import make_oblique_sine
from bspforest.plotting import (
    CutDisplay,
    GrowthDisplay,
    PartitionDisplay,
    ProcessDisplay,
    SliceDisplay,
    SurfaceDisplay,
)
from bspforest.reference import draw_partition, make_box

PRICES = "uk_pricepaid_ew_monthly2018.npz"


def process_square():
    """Draw a realisation of the process in the unit square."""
    square = draw_partition(make_box([0, 0], [1, 1]), 6.0, random_state=11)
    return ProcessDisplay.from_partition(square).plot().figure_


def process_cube():
    """Draw a realisation in a cube, as cuts and as exploded cells (Figure 1, left)."""
    cube = draw_partition(make_box([0, 0, 0], [1, 1, 1]), 0.9, random_state=8)
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained", subplot_kw={"projection": "3d"})
    display = ProcessDisplay.from_partition(cube)
    display.plot(axes[0])
    display.plot(axes[1], explode=0.6)
    return figure


def process_times():
    """Draw the partition of a cube at several times, with new cuts highlighted (Figure 1, left)."""
    cube = draw_partition(make_box([0, 0, 0], [1, 1, 1]), 0.9, random_state=8)
    times = [block.cut.time for block in cube.cut_blocks()]
    return ProcessDisplay.from_partition(cube).plot_times([*times[:3], times[5]]).figure_


def cut():
    """Draw the steps of one cut (Figure 1, right)."""
    cube = draw_partition(make_box([0, 0, 0], [1, 1, 1]), 0.9, random_state=8)
    return CutDisplay.from_block(cube.cut_blocks()[1]).plot().figure_


def slice_of_square():
    """Draw a line slice (supplement)."""
    square = draw_partition(make_box([0, 0], [1, 1]), 6.0, random_state=11)
    return SliceDisplay.from_partition(square, budget=6.0).plot().figure_


def partition():
    """Draw a BSP tree and a Mondrian tree, with nested hulls and boxes (supplement)."""
    X, y = make_moons(80, noise=0.12, random_state=2)
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for ax, cuts in zip(axes, ("pairs", "axes"), strict=True):
        forest = BSPForestClassifier(10, cuts=cuts, budget_scale=2, random_state=1, prediction="mean").fit(X, y)
        PartitionDisplay.from_estimator(forest, tree=3).plot(ax, legend=cuts == "axes")
    return figure


def partition_section():
    """Draw a section of a tree with five features."""
    X, y = make_friedman1(2000, n_features=5, random_state=0)
    forest = BSPForestRegressor(1, budget_scale=3, random_state=1, prediction="mean").fit(X, y)
    return PartitionDisplay.from_estimator(forest, dims=(0, 1)).plot().figure_


def _grow(n: int) -> GrowthDisplay:
    X, y = make_moons(18, noise=0.1, random_state=0)
    return GrowthDisplay.from_stream(
        BSPForestClassifier(budget_scale=1.3, random_state=57, prediction="mean"), X[:n], y[:n]
    )


def growth():
    """Draw a tree that grows row by row (Figure 2)."""
    return _grow(9).plot_steps([6, 7, 8, 9]).figure_


def surface_classes():
    """Draw the predictions of a classifier and their uncertainty."""
    X, y = make_moons(400, noise=0.2, random_state=2)
    return (
        SurfaceDisplay.from_estimator(BSPForestClassifier(budget_scale=2, random_state=0, prediction="mean").fit(X, y))
        .plot()
        .figure_
    )


def surface_iris():
    """Draw two of four features, with the others at their medians."""
    iris = load_iris()
    forest = BSPForestClassifier(budget_scale=2, random_state=0, prediction="mean").fit(
        iris.data, iris.target_names[iris.target]
    )
    return SurfaceDisplay.from_estimator(forest, dims=(2, 3), reach=0.15).plot().figure_


def surface_regression():
    """Draw a regression surface and its standard deviation, with the other features at given values."""
    X, y = make_friedman1(3000, n_features=5, random_state=0)
    forest = BSPForestRegressor(random_state=0, prediction="mean").fit(X, y)
    return SurfaceDisplay.from_estimator(forest, dims=(0, 1), values={2: 0.5, 3: 0.9, 4: 0.5}).plot().figure_


def joint_values():
    """Draw the surfaces of the same number of trees with means in leaves and with joint values."""
    X, y, _ = make_oblique_sine(300, random_state=0)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for ax, values in zip(axes, ("mean", "ridge"), strict=True):
        forest = BSPForestRegressor(random_state=0, prediction=values).fit(X, y)
        SurfaceDisplay.from_estimator(forest).plot(ax, uncertainty=False, legend=values == "ridge")
        ax.set_title(f'values="{values}"')
    return figure


def metric():
    """Draw a tree with equal weights of features, and one with learned weights, where labels depend on one feature."""
    rng = np.random.default_rng(0)
    X = rng.random((120, 2))
    y = np.sin(2 * np.pi * X[:, 0]) + rng.normal(scale=0.05, size=120)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    for ax, choice in zip(axes, (None, "learned"), strict=True):
        forest = BSPForestRegressor(50, feature_weights=choice, random_state=0).fit(X, y)
        PartitionDisplay.from_estimator(forest).plot(ax, legend=choice is not None)
        ax.set_title(
            f"feature_weights={choice!r}: weights {', '.join(f'{weight:.2g}' for weight in forest.feature_weights_)}"
        )
    return figure


def prices():
    """Draw maps of house prices in England and Wales: one tree, a forest, and the forest after learning more sales."""
    with np.load(Path(os.environ["BSPFOREST_DATA"]) / PRICES, allow_pickle=False) as data:
        order = np.random.default_rng(0).permutation(len(data["y"]))
        X, y = data["X"][order, ::-1].astype(float), data["y"][order].astype(float)
    shared = {"budget_scale": 5, "random_state": 0, "scaling": ((-6.4, 49.9), (1.8, 55.8))}
    view = {"extent": (-5.8, 1.9, 49.9, 55.9), "grid_resolution": 300, "reach": 0.012}
    tree = BSPForestRegressor(1, prediction="mean", **shared).fit(X[:1000], y[:1000])
    forest = BSPForestRegressor(100, n_jobs=2, prediction="mean", **shared).fit(X[:1000], y[:1000])
    maps = [SurfaceDisplay.from_estimator(model, **view) for model in (tree, forest)]
    maps.append(SurfaceDisplay.from_estimator(forest.partial_fit(X[1000:], y[1000:]), **view))
    titles = ("one tree, 1,000 sales", "100 trees, 1,000 sales", f"100 trees, {len(X):,} sales", "its uncertainty")
    figure, axes = plt.subplots(1, 4, figsize=(12, 4.0), layout="constrained")
    for ax, display in zip(axes, maps, strict=False):
        display.shown = maps[-1].shown  # all maps show the area covered by all sales
        display.plot(ax, uncertainty=False, legend=False, points=False).images_[0].set_clim(11.3, 13.5)
    prices = np.array([100, 200, 400, 700])
    bar = figure.colorbar(maps[-1].images_[0], ax=axes[:3], shrink=0.7, pad=0.01, ticks=np.log(1000 * prices))
    bar.ax.set_yticklabels([f"£{price}k" for price in prices])
    maps[-1].response = maps[-1].uncertainty
    spread = maps[-1].plot(axes[3], uncertainty=False, legend=False, points=False).images_[0]
    spread.set(clim=(0.2, 1.2), cmap="magma")
    figure.colorbar(spread, ax=axes[3], shrink=0.7, pad=0.01, label="standard deviation of log price")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
        ax.set_aspect(1 / np.cos(np.radians(53)))
        ax.set_axis_off()
    return figure


FIGURES: tuple[Callable, ...] = (
    process_square, process_cube, process_times, cut, slice_of_square, partition, partition_section, growth, surface_classes,
    surface_iris, surface_regression, joint_values, metric, prices,
)  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    """Draw all figures."""
    names = [draw.__name__ for draw in FIGURES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("out/gallery"), help="folder for the figures (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*names, "growth_animation"],
        metavar="NAME",
        help=f"draw only these, of {', '.join(names)}, growth_animation",
    )
    parser.add_argument("--dpi", type=int, default=100, help="dots per inch (default: %(default)s)")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    data = os.environ.get("BSPFOREST_DATA", "")
    for draw in FIGURES:
        name = draw.__name__
        if options.only and name not in options.only:
            continue
        if draw is prices and not (data and (Path(data) / PRICES).exists()):
            print(f"{name}: skipped, since {PRICES} is not in the folder named by BSPFOREST_DATA")
            continue
        for style, ending in (("default", ""), ("dark_background", "-dark")):
            started = time.perf_counter()
            path = options.out / f"{name}{ending}.png"
            with plt.style.context(style):
                draw().savefig(path, dpi=options.dpi, pil_kwargs={"optimize": True})
                plt.close("all")
            print(f"{path}: {draw.__doc__}  {time.perf_counter() - started:.1f} s")
    if not options.only or "growth_animation" in options.only:
        print(f"{_grow(18).save(options.out / 'growth.gif', fps=2)}: the growing tree as an animation.")


if __name__ == "__main__":
    main()
