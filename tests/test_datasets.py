"""Test the loaders with local files and OpenML, their errors, and the simulated datasets."""

from __future__ import annotations

import os

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from bspforest import datasets


@pytest.fixture
def no_datasets(monkeypatch, tmp_path):
    """Hide local datasets and make OpenML unreachable."""
    monkeypatch.delenv(datasets.DATA_VARIABLE, raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")


def write_archive(folder, name="dna.npz", n=12, d=180, **other):
    arrays = {"X": np.arange(n * d).reshape(n, d) % 7, "y": np.arange(n) % 3, **other}
    np.savez(folder / name, **{k: v for k, v in arrays.items() if v is not None})


def test_load_from_a_local_file(tmp_path, monkeypatch):
    write_archive(tmp_path, n_train=8, class_names=np.array(["ei", "ie", "n"]), origin="made up")
    data = datasets.load_dna(data_home=tmp_path)
    assert data.data.shape == (12, 180) and data.data.dtype == np.float64
    assert data.n_train == 8 and data.target_names == ["ei", "ie", "n"] and "made up" in data.DESCR
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    X, y = datasets.load_dna(return_X_y=True)
    assert np.array_equal(X, data.data) and np.array_equal(y, data.target)


def test_data_home_takes_precedence_over_the_variable(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write_archive(tmp_path / "a", n=5)
    write_archive(tmp_path / "b", n=9)
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path / "a"))
    assert len(datasets.load_dna(data_home=tmp_path / "b").data) == 9


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": None}, "no array 'y'"),
        ({"X": np.zeros((12, 5))}, r"180 columns.*\(12, 5\)"),
        ({"y": np.zeros(3)}, r"\(3,\)"),
    ],
)
def test_a_file_with_wrong_contents_is_rejected(tmp_path, arrays, message):
    write_archive(tmp_path, **arrays)
    with pytest.raises(ValueError, match=message):
        datasets.load_dna(data_home=tmp_path)


def test_missing_files_are_explained(tmp_path, no_datasets):
    with pytest.raises(FileNotFoundError, match=rf"airline2008_jan_apr.npz in {tmp_path}.*rows × 8.*arrival delay"):
        datasets.load_airline(data_home=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"data_home or in the variable BSPFOREST_DATA.*price paid"):
        datasets.load_uk_prices()
    with pytest.raises(FileNotFoundError, match="not a folder"):
        datasets.load_dna(data_home=tmp_path / "absent")


@pytest.mark.filterwarnings("ignore:A network error")
def test_unreachable_openml(no_datasets):
    with pytest.raises(OSError, match=r"usps.*OpenML \(dataset 41082\) could not be reached.*usps.npz"):
        datasets.load_usps()


def mock_openml(monkeypatch, X, y):
    """Make OpenML return these rows."""
    names = [f"v{k}" for k in range(X.shape[1])]
    answer = Bunch(data=X, target=y, feature_names=names)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **_: answer)


def test_numeric_classes_of_openml_are_sorted_by_value(monkeypatch, no_datasets):
    y = np.array([str(1 + k % 10) for k in range(40)], dtype=object)
    mock_openml(monkeypatch, np.zeros((40, 256)), y)
    data = datasets.load_usps()
    assert data.target_names == [str(k) for k in range(1, 11)]  # "10" after "9"
    assert np.array_equal(data.target, np.arange(40) % 10)
    assert data.n_train is None  # not the official rows
    mock_openml(monkeypatch, np.zeros((40, 3)), y)
    with pytest.raises(ValueError, match="expected 256 features, OpenML returned 3"):
        datasets.load_usps()


# The datasets cannot be redistributed, so this test needs local copies.
@pytest.mark.skipif(datasets.DATA_VARIABLE not in os.environ, reason="no datasets: BSPFOREST_DATA is not set")
@pytest.mark.parametrize("name", ["satimage", "letter", "dna", "usps"])
def test_official_order_is_recognised(monkeypatch, name):
    load = getattr(datasets, f"load_{name}")
    local = load()
    names = np.array([f"class {k}" for k in local.target], dtype=object)
    monkeypatch.delenv(datasets.DATA_VARIABLE)
    mock_openml(monkeypatch, local.data, names)
    assert load().n_train == local.n_train
    mock_openml(monkeypatch, local.data[::-1], names[::-1])
    assert load().n_train is None


def test_simulated_datasets():
    X, y, truth = datasets.make_friedman(2000, 7, random_state=1)
    assert X.shape == (2000, 7)
    x = X[3]
    expected = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
    assert truth[3] == pytest.approx(expected)
    assert 0.95 < (y - truth).std() < 1.05
    again = datasets.make_friedman(2000, 7, random_state=1)
    assert np.array_equal(again[1], y)
    X, y, truth = datasets.make_oblique_sine(500, noise=0.0, random_state=1)
    assert np.array_equal(y, truth) and truth[0] == pytest.approx(10 * np.sin(np.pi * X[0, 0] * X[0, 1]))
    with pytest.raises(ValueError, match="5 features are needed, got n=10, d=4"):
        datasets.make_friedman(10, 4)
