"""The datasets of the paper's experiments, read from a local folder or fetched from OpenML.

A loader looks for its file in ``data_home``, or else in the folder named by the environment variable ``BSPFOREST_DATA``.
The file is a numpy archive (``numpy.savez``) with ``X``, ``y`` and optionally ``feature_names``, ``class_names``,
``n_train`` and ``origin``. If there is no file, classification datasets are fetched from OpenML with scikit-learn, which
caches them; for the others, the error message says which file to provide.

The simulated datasets, `make_friedman` and `make_oblique_sine`, need no file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets
from sklearn.utils import Bunch, check_random_state

DATA_VARIABLE = "BSPFOREST_DATA"


class _Source(NamedTuple):
    """Where a dataset comes from."""

    file: str
    n_features: int
    contents: str  # contents of the file, for error messages and descriptions
    openml: int | None = None
    n_train: int = 0
    order_hash: str = ""  # hash of the labels in the official order, see `_hash_order`


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


def _hash_order(y: np.ndarray) -> str:
    """Return a hash of the sequence of labels that does not depend on the names of the classes."""
    _, first, index = np.unique(y, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return hashlib.sha256(rank[index].astype(np.uint8).tobytes()).hexdigest()[:16]


def find_data_folder(data_home: str | os.PathLike | None = None) -> Path | None:
    """Return the folder with the datasets: ``data_home``, or else that named by ``BSPFOREST_DATA``, or else None.

    Parameters
    ----------
    data_home : path-like or None
        The folder; FileNotFoundError if there is none of that name.

    Returns
    -------
    Path or None
    """
    folder = data_home if data_home is not None else os.environ.get(DATA_VARIABLE) or None
    if folder is None:
        return None
    path = Path(folder).expanduser()
    if not path.is_dir():
        named = "data_home" if data_home is not None else DATA_VARIABLE
        raise FileNotFoundError(f"{named} names {str(path)!r}, which is not a folder")
    return path


def _read_archive(path: Path, source: _Source) -> Bunch:
    with np.load(path, allow_pickle=False) as archive:
        missing = {"X", "y"} - set(archive)
        if missing:
            raise ValueError(f"{path} has no array {sorted(missing)[0]!r}; expected X and y: {source.contents}")
        X, y = archive["X"], archive["y"]
        if X.ndim != 2 or X.shape[1] != source.n_features or y.shape != (len(X),):
            raise ValueError(
                f"{path}: expected X with {source.n_features} columns and one y per row, got X of shape {X.shape} and y of "
                f"shape {y.shape}"
            )
        names = archive["feature_names"] if "feature_names" in archive else [f"x{k}" for k in range(X.shape[1])]
        classes = archive["class_names"].tolist() if "class_names" in archive else None
        n_train = int(archive["n_train"]) if "n_train" in archive else None
        origin = str(archive["origin"]) if "origin" in archive else str(path)
    return Bunch(
        data=X.astype(np.float64),
        target=y if y.dtype.kind in "iu" else y.astype(np.float64),
        feature_names=[str(name) for name in names],
        target_names=classes,
        n_train=n_train,
        DESCR=f"{source.contents}. {origin}",
    )


def _fetch(name: str, source: _Source, data_home: str | os.PathLike | None) -> Bunch:
    try:
        fetched = sklearn.datasets.fetch_openml(
            data_id=source.openml, as_frame=False, parser="liac-arff", n_retries=1, delay=0.2
        )
    except OSError as error:
        raise OSError(
            f"{name}: no local file, and OpenML (dataset {source.openml}) could not be reached: {error}. "
            + _explain_file(source, data_home)
        ) from error
    classes, y = np.unique(fetched.target, return_inverse=True)
    if classes.dtype.kind not in "iuf" and all(str(c).isdigit() for c in classes):  # "10" comes after "9"
        order = np.argsort([int(c) for c in classes])
        classes, y = classes[order], np.argsort(order)[y]
    X = np.asarray(fetched.data, dtype=np.float64)
    if X.shape[1] != source.n_features:
        raise ValueError(f"{name}: expected {source.n_features} features, OpenML returned {X.shape[1]}")
    return Bunch(
        data=X,
        target=y,
        feature_names=list(fetched.feature_names),
        target_names=[str(c) for c in classes],
        n_train=source.n_train if _hash_order(y) == source.order_hash else None,
        DESCR=f"{source.contents}. OpenML dataset {source.openml}",
    )


def _explain_file(source: _Source, data_home: str | os.PathLike | None) -> str:
    folder = find_data_folder(data_home)
    where = f"in {folder}" if folder else f"in a folder and pass it as data_home or in the variable {DATA_VARIABLE}"
    return (
        f"To use a local copy, put the file {source.file} {where}: a numpy archive with arrays X "
        f"(rows × {source.n_features}) and y. Contents: {source.contents}."
    )


def _load(name: str, data_home: str | os.PathLike | None, return_X_y: bool) -> Any:
    source = _SOURCES[name]
    folder = find_data_folder(data_home)
    if folder is not None and (folder / source.file).is_file():
        data = _read_archive(folder / source.file, source)
    elif source.openml is not None:
        data = _fetch(name, source, data_home)
    else:
        raise FileNotFoundError(f"{name}: no file {source.file}. {_explain_file(source, data_home)}")
    return (data.data, data.target) if return_X_y else data


_COMMON_SECTIONS = """
    Parameters
    ----------
    data_home : path or None
        Folder with the file; by default the one named by the environment variable BSPFOREST_DATA.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch
        With ``data``, ``target``, ``feature_names``, ``target_names``, ``n_train`` and ``DESCR``. The first ``n_train``
        rows are the official training set; None if there is none, or if the copy is not in the official order.
    """


def load_satimage(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Load Statlog Landsat: soil types in satellite images, 6,435 × 36, six classes. UCI; OpenML 182 (6,430 rows)."""
    return _load("satimage", data_home, return_X_y)


def load_letter(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Load UCI Letter Recognition: shapes of printed capital letters, 20,000 × 16, 26 classes. OpenML 6."""
    return _load("letter", data_home, return_X_y)


def load_dna(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Load Statlog DNA: splice junctions, 3,186 × 180 binary features, three classes. OpenML 40670."""
    return _load("dna", data_home, return_X_y)


def load_usps(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Load USPS: handwritten digits of zip codes, 9,298 × 256 grey values, ten classes. OpenML 41082."""
    return _load("usps", data_home, return_X_y)


def load_airline(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Load delays of US flights in 2008, in time order, with eight features; the label is the arrival delay in minutes.

    ASA Data Expo 2009, joined with the ages of the planes. OpenML does not have it with these features.
    """
    return _load("airline", data_home, return_X_y)


def load_uk_prices(*, data_home: str | os.PathLike | None = None, return_X_y: bool = False) -> Any:
    """Load prices of houses and flats in England and Wales by latitude and longitude; the label is the log price.

    HM Land Registry, a monthly update of late 2018 with all types of property; the paper uses apartments sold in 2012.
    Contains HM Land Registry data and ONS postcode data, Crown copyright, under the Open Government Licence v3.0. It is
    not on OpenML.
    """
    return _load("uk_prices", data_home, return_X_y)


for _loader in (load_satimage, load_letter, load_dna, load_usps, load_airline, load_uk_prices):
    _loader.__doc__ = str(_loader.__doc__).rstrip() + "\n" + _COMMON_SECTIONS


def _check_size(n: int, d: int, min_features: int) -> None:
    if n < 1 or d < min_features:
        raise ValueError(f"at least 1 row and {min_features} features are needed, got n={n}, d={d}")


def make_friedman(
    n: int, d: int = 5, *, noise: float = 1.0, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate Friedman's function of the first five of ``d`` uniform features, with normal noise.

    f(x) = 10 sin(π x1 x2) + 20 (x3 - 1/2)² + 10 x4 + 5 x5; J. H. Friedman, Annals of Statistics 19 (1991).

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    d : int, default=5
        Number of features, at least 5; the function depends on the first five only.
    noise : float, default=1.0
        Standard deviation of the noise in the labels.
    random_state : int, RandomState or None
        Pass an int for reproducible rows and noise.

    Returns
    -------
    X : ndarray of shape (n, d)
        Uniform in [0, 1).
    y : ndarray of shape (n,)
        The true function plus noise.
    truth : ndarray of shape (n,)
        The true function f(X).

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
    """Simulate f(x) = 10 sin(π x1 x2) on the unit square with normal noise.

    This is the paper's example for the efficiency of oblique cuts.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    noise : float, default=0.2
        Standard deviation of the noise in the labels.
    random_state : int, RandomState or None
        Pass an int for reproducible rows and noise.

    Returns
    -------
    X : ndarray of shape (n, 2)
        Uniform in [0, 1).
    y : ndarray of shape (n,)
        The true function plus noise.
    truth : ndarray of shape (n,)
        The true function f(X).

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
    """Return uniform rows in the unit cube, 10 sin(π x1 x2) of each row, and standard normal errors."""
    rng = check_random_state(random_state)
    X = rng.random_sample((n, d))
    return X, 10 * np.sin(np.pi * X[:, 0] * X[:, 1]), rng.standard_normal(n)
