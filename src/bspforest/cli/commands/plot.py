"""``bspforest plot``: draw the predictions of a saved model over two of its features."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ..errors import UsageError
from ..model.record import load_model
from ..pictures import check_picture, use_matplotlib
from ..terminal import print_lines, printable


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    use_matplotlib()
    from ...plotting import SurfaceDisplay  # imports matplotlib

    check_picture(options.output, "--output")
    forest, record = load_model(options.model)
    names = record.make_encoder().names
    dims = tuple(_find_feature(name, names, options.model) for name in options.dims)
    if dims[0] == dims[1]:
        raise UsageError("--dims must name two different features")
    values = dict(_parse_value(entry, names, options.model) for entry in options.at)
    forest.feature_names_in_ = np.array([printable(name) for name in names], dtype=object)
    target = record.make_target()
    if target.classes is not None:
        forest.classes_ = np.array([printable(str(label)) for label in target.classes])
    display = SurfaceDisplay.from_estimator(forest, dims=dims, values=values or None).plot()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(options.output, dpi=150)
    print_lines(f"Picture: {options.output}")
    return 0


def _find_feature(name: str, names: list[str], path: Path) -> int:
    if name not in names:
        raise UsageError(f"{path} has no feature {name!r}. Its features: {', '.join(names)}")
    return names.index(name)


def _parse_value(entry: str, names: list[str], path: Path) -> tuple[int, float]:
    """Return the index of a feature and its fixed value, given as ``NAME=VALUE``."""
    name, _, value = entry.rpartition("=")  # the name may contain "=", as in colour=red
    try:
        return _find_feature(name, names, path), float(value)
    except ValueError:
        raise UsageError(f"--at {entry}: expected NAME=NUMBER") from None
