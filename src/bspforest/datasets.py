"""The datasets of the paper's experiments, read from a folder of yours or fetched from OpenML.

A loader looks for its file in ``data_home``, else in the folder named by the environment variable ``BSPFOREST_DATA``.
The file is a numpy archive (``numpy.savez``) with ``X``, ``y``, ``feature_names`` and perhaps ``class_names``,
``n_train`` and ``origin``. If there is none, the classification sets are fetched from OpenML by scikit-learn, which
keeps them in its own cache; of the others the error says what to put where.

The simulated sets, `make_friedman` and `make_oblique_sine`, need no file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch, check_random_state

VARIABLE = "BSPFOREST_DATA"


class _Source(NamedTuple):
    """Where a dataset comes from."""

    file: str
    n_features: int
    about: str  # what the file holds, for errors and descriptions
    openml: int | None = None
    n_train: int = 0
    order: str = ""  # of the labels in the official order, see `_order_of`


_SOURCES = {
    "satimage": _Source("satimage.npz", 36, "Statlog Landsat Satellite, 6,435 rows", 182, 4435, "32e72d56dbdf519e"),
    "letter": _Source("letter.npz", 16, "UCI Letter Recognition, 20,000 rows", 6, 15_000, "0edb014926a3d708"),
    "dna": _Source("dna.npz", 180, "Statlog DNA, 3,186 rows", 40670, 2000, "4b1192f79341ead8"),
    "usps": _Source("usps.npz", 256, "USPS digits, 9,298 rows", 41082, 7291, "48a437835b524392"),
    "airline": _Source(
        "airline2008_jan_apr.npz",
        8,
        "US flights of 2008 in time order (ASA Data Expo 2009: 2008.csv with plane-data.csv, "
        "doi:10.7910/DVN/HG7NV7). X: age of the plane in years, distance in miles, air time, departure and arrival as "
        "minutes of the day, day of the week, day of the month, month. y: arrival delay in minutes",
    ),
    "uk_prices": _Source(
        "uk_pricepaid_ew_monthly2018.npz",
        2,
        "prices of houses and flats sold in England and Wales (HM Land Registry, price paid data). X: latitude and "
        "longitude of the postcode. y: logarithm of the price",
    ),
}


def _order_of(y: np.ndarray) -> str:
    """A fingerprint of labels in their order, whatever the classes are called."""
    _, first, index = np.unique(y, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return hashlib.sha256(rank[index].astype(np.uint8).tobytes()).hexdigest()[:16]


def find_data(data_home: str | os.PathLike | None = None) -> Path | None:
    """The folder to look in: ``data_home``, else that of ``BSPFOREST_DATA``, else None."""
    folder = data_home if data_home is not None else os.environ.get(VARIABLE) or None
    if folder is None:
        return None
    path = Path(folder).expanduser()
    if not path.is_dir():
        named = "data_home" if data_home is not None else VARIABLE
        raise FileNotFoundError(f"{named} names {str(path)!r}, which is not a folder")
    return path


def _read(path: Path, source: _Source) -> Bunch:
    with np.load(path, allow_pickle=False) as held:
        missing = {"X", "y"} - set(held)
        if missing:
            raise ValueError(f"{path} has no array {sorted(missing)[0]!r}; expected X and y: {source.about}")
        X, y = held["X"], held["y"]
        if X.ndim != 2 or X.shape[1] != source.n_features or y.shape != (len(X),):
            raise ValueError(
                f"{path}: expected X of {source.n_features} columns and one y a row, got X of shape {X.shape} and y of "
                f"shape {y.shape}"
            )
        names = held["feature_names"] if "feature_names" in held else [f"x{k}" for k in range(X.shape[1])]
        classes = held["class_names"].tolist() if "class_names" in held else None
        n_train = int(held["n_train"]) if "n_train" in held else None
        origin = str(held["origin"]) if "origin" in held else str(path)
    return Bunch(
        data=X.astype(np.float64),
        target=y if y.dtype.kind in "iu" else y.astype(np.float64),
        feature_names=[str(name) for name in names],
        target_names=classes,
        n_train=n_train,
        DESCR=f"{source.about}. {origin}",
    )


def _fetch(name: str, source: _Source, data_home: str | os.PathLike | None) -> Bunch:
    from sklearn.datasets import fetch_openml

    try:
        got = fetch_openml(data_id=source.openml, as_frame=False, parser="liac-arff", n_retries=1, delay=0.2)
    except OSError as error:
        raise OSError(
            f"{name}: not found on this machine, and OpenML (data set {source.openml}) could not be reached: {error}. "
            + _say_where(source, data_home)
        ) from error
    classes, y = np.unique(got.target, return_inverse=True)
    if classes.dtype.kind not in "iuf" and all(str(c).isdigit() for c in classes):  # "10" comes after "9"
        order = np.argsort([int(c) for c in classes])
        classes, y = classes[order], np.argsort(order)[y]
    X = np.asarray(got.data, dtype=np.float64)
    if X.shape[1] != source.n_features:
        raise ValueError(f"{name}: OpenML gave {X.shape[1]} features where {source.n_features} were expected")
    return Bunch(
        data=X,
        target=y,
        feature_names=list(got.feature_names),
        target_names=[str(c) for c in classes],
        n_train=source.n_train if _order_of(y) == source.order else None,
        DESCR=f"{source.about}. OpenML data set {source.openml}",
    )


def _say_where(source: _Source, data_home: str | os.PathLike | None) -> str:
    folder = find_data(data_home)
    where = f"in {folder}" if folder else f"in a folder and give it as data_home or in the variable {VARIABLE}"
    return (
        f"To use a copy of your own, put the file {source.file} {where}: a numpy archive with arrays X "
        f"(rows × {source.n_features}) and y. It holds: {source.about}."
    )


def _load(name: str, data_home: str | os.PathLike | None, return_X_y: bool) -> Any:
    source = _SOURCES[name]
    folder = find_data(data_home)
    if folder is not None and (folder / source.file).is_file():
        data = _read(folder / source.file, source)
    elif source.openml is not None:
        data = _fetch(name, source, data_home)
    else:
        raise FileNotFoundError(f"{name}: no file {source.file}. {_say_where(source, data_home)}")
    return (data.data, data.target) if return_X_y else data


_RETURNS = """
    Parameters
    ----------
    data_home : path or None
        Folder with the file; by default the one named by the environment variable BSPFOREST_DATA.
    return_X_y : bool, default=False
        Return only the arrays.

    Returns
    -------
    Bunch with ``data``, ``target``, ``feature_names``, ``target_names``, ``n_train`` (the first so many rows are the
    official training part; None if there is none, or if the copy is not in the official order) and ``DESCR``; or
    ``(data, target)``.
    """


def load_satimage(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Statlog Landsat: the soil seen by a satellite, 6,435 × 36, six classes. UCI; OpenML 182 (with 6,430 rows)."""
    return _load("satimage", data_home, return_X_y)


def load_letter(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """UCI Letter Recognition: shapes of printed capitals, 20,000 × 16, 26 classes. OpenML 6."""
    return _load("letter", data_home, return_X_y)


def load_dna(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Statlog DNA: splice junctions, 3,186 × 180 of 0 and 1, three classes. OpenML 40670."""
    return _load("dna", data_home, return_X_y)


def load_usps(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """USPS: handwritten digits of zip codes, 9,298 × 256 grey values, ten classes. OpenML 41082."""
    return _load("usps", data_home, return_X_y)


def load_airline(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Delays of US flights in 2008, in time order, with eight features; the label is the arrival delay in minutes.

    ASA Data Expo 2009, joined with the ages of the planes. It is not on OpenML with these features.
    """
    return _load("airline", data_home, return_X_y)


def load_uk_prices(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Prices paid for houses and flats in England and Wales, by latitude and longitude; the label is the log price.

    HM Land Registry, a monthly update of late 2018, all kinds of property, where the paper has the apartments of 2012.
    Contains HM Land Registry data and ONS postcode data, Crown copyright, under the Open Government Licence v3.0. It is
    not on OpenML.
    """
    return _load("uk_prices", data_home, return_X_y)


for _loader in (load_satimage, load_letter, load_dna, load_usps, load_airline, load_uk_prices):
    _loader.__doc__ = str(_loader.__doc__).rstrip() + "\n" + _RETURNS


def _check_size(n: int, d: int, least: int) -> None:
    if n < 1 or d < least:
        raise ValueError(f"at least 1 row and {least} features are needed, got n={n}, d={d}")


def make_friedman(
    n: int, d: int = 5, *, noise: float = 1.0, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Friedman's function of five uniform features among ``d``: rows, labels with normal noise, and the true function.

    f(x) = 10 sin(π x1 x2) + 20 (x3 - 1/2)² + 10 x4 + 5 x5; J. H. Friedman, Annals of Statistics 19 (1991).

    Parameters
    ----------
    n : int
        Rows, at least 1.
    d : int, default=5
        Features, at least 5; those after the fifth do not matter.
    noise : float, default=1.0
        Standard deviation of the noise in the labels.
    random_state : int, RandomState or None
        An int gives the same rows and noise each time.

    Returns
    -------
    X : ndarray of shape (n, d)
        Uniform in [0, 1).
    y : ndarray of shape (n,)
        The true function with noise.
    truth : ndarray of shape (n,)
        The true function, f(X).

    Examples
    --------
    >>> from bspforest.datasets import make_friedman
    >>> X, y, truth = make_friedman(1000, 10, random_state=0)
    >>> X.shape, round(float((y - truth).std()), 1)
    ((1000, 10), 1.0)
    """
    _check_size(n, d, 5)
    X, sine, errors = _draw_sine(n, d, random_state)
    truth = sine + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, truth + noise * errors, truth


def make_oblique_sine(
    n: int, *, noise: float = 0.2, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f(x) = 10 sin(π x1 x2) in the unit square: rows, labels with normal noise, and the true function.

    The paper's example for the efficiency of oblique cuts.

    Parameters
    ----------
    n : int
        Rows, at least 1.
    noise : float, default=0.2
        Standard deviation of the noise in the labels.
    random_state : int, RandomState or None
        An int gives the same rows and noise each time.

    Returns
    -------
    X : ndarray of shape (n, 2)
        Uniform in [0, 1).
    y : ndarray of shape (n,)
        The true function with noise.
    truth : ndarray of shape (n,)
        The true function, f(X).

    Examples
    --------
    >>> from bspforest.datasets import make_oblique_sine
    >>> X, y, truth = make_oblique_sine(1000, random_state=0)
    >>> X.shape, round(float((y - truth).std()), 1)
    ((1000, 2), 0.2)
    """
    _check_size(n, 2, 2)
    X, truth, errors = _draw_sine(n, 2, random_state)
    return X, truth + noise * errors, truth


def _draw_sine(n: int, d: int, random_state: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows uniform in the unit cube, 10 sin(π x1 x2) of each, and standard normal errors."""
    rng = check_random_state(random_state)
    X = rng.random_sample((n, d))
    return X, 10 * np.sin(np.pi * X[:, 0] * X[:, 1]), rng.standard_normal(n)
