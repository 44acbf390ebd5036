"""Check the rate of Theorem 3: squared error against the number of rows, with a fitted slope.

    python benchmarks/rate.py            # a few minutes
    python benchmarks/rate.py --quick    # a quarter of the rows, half the repeats

Rows are uniform in the cube [0, 1]^d, labels are a Lipschitz function g of the row plus noise, and the budget is a constant
times n^(1/(d+2)). The theorem bounds the mean of (g(x) - ĝ_n(x))² by a constant times n^(-2/(d+2)). Its proof is for a
single tree, where this is also the order of the error itself. A forest is at least as good, and may be better: where g is
smooth, averaging over trees reduces the bias.
"""

from __future__ import annotations

import argparse

import numpy as np

from bspforest import BSPForestRegressor

NOISE = 0.15
# Blocks must be small relative to the cube but contain enough rows; with three dimensions, a budget gives more cuts.
SCALES = {1: 2.0, 2: 2.0, 3: 1.0}
SIZES = {1: 1000, 2: 1000, 3: 4000}  # the smallest; each next size is four times as large


def g(X: np.ndarray) -> np.ndarray:
    """Return the distance from a point, a function with slope 1 everywhere and a kink."""
    return np.linalg.norm(X - 0.4, axis=1)


def measure_error(n: int, d: int, n_trees: int, seed: int) -> float:
    """Return the mean of (g(x) - ĝ_n(x))² over the cube for one forest."""
    rng = np.random.default_rng([seed, n, d])
    X, X_new = rng.random((n, d)), rng.random((4000, d))
    y = g(X) + NOISE * rng.normal(size=n)
    forest = BSPForestRegressor(
        n_estimators=n_trees, budget_scale=SCALES[d], scaling=None, random_state=seed, prediction="mean"
    ).fit(X, y)
    return float(np.mean((forest.predict(X_new) - g(X_new)) ** 2))


def measure_slope(d: int, n_trees: int, sizes: list[int], repeats: int) -> tuple[np.ndarray, float, float]:
    """Return the mean error for each size, the slope of log error on log n, and the standard error of the slope."""
    errors = np.array([[measure_error(n, d, n_trees, seed) for n in sizes] for seed in range(repeats)])
    slopes = np.polyfit(np.log(sizes), np.log(errors).T, 1)[0]
    return errors.mean(axis=0), float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows, half the repeats")
    quick = parser.parse_args().quick
    print("| trees | d | rows | squared error × 1000 | slope | -2/(d+2) |")
    print("|---|---|---|---|---|---|")
    for n_trees, steps, repeats in ((1, 5, 12), (20, 4, 6)):
        for d in (1, 2, 3):
            sizes = [SIZES[d] * 4**k for k in range(steps - quick)]
            errors, slope, error = measure_slope(d, n_trees, sizes, repeats // (1 + quick))
            shown = ", ".join(f"{1000 * value:.3g}" for value in errors)
            rows = f"{sizes[0]:,} to {sizes[-1]:,}"
            print(
                f"| {n_trees} | {d} | {rows} | {shown} | {slope:.3f} ± {error:.3f} | {-2 / (d + 2):.3f} |", flush=True
            )


if __name__ == "__main__":
    main()
