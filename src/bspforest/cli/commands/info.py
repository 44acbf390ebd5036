"""``bspforest info``, ``forget`` and ``plot``: what is in a model file, less of it, a picture of it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...persistence import saver as persistence
from ..errors import NoMatplotlib, UsageError
from ..model.record import KEY, Record, load_model, parse_record
from ..report import check_picture, format_number

# ----------------------------------------------------------------------------------------------------------------------
# info


def run_info(options: argparse.Namespace) -> int:
    """Run ``bspforest info``."""
    header = persistence.read_header(options.model)
    content = _summarise(header, options.model)
    if options.json:
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    width = max(map(len, content))
    for name, value in content.items():
        print(f"{name.replace('_', ' '):{width}}  {_show(value, width + 2)}".rstrip())
    return 0


def _summarise(header: dict[str, Any], path: Path) -> dict[str, Any]:
    forest = header["forest"]
    content: dict[str, Any] = {
        "model": header["estimator"],
        "saved": header["saved"],
        "bspforest": header["bspforest"],
        "bytes": path.stat().st_size,
        "trees": forest["n_trees"],
        "rows": forest["n_held"],
        "rows_seen": forest["n_seen"],
        "budget": forest["budget"],
        "parameters": header["parameters"],
    }
    if header["extra"] and KEY in header["extra"]:
        record = parse_record(header["extra"], path)
        content |= {
            "target": record.target["name"],
            "task": record.target["task"],
            "classes": record.target["classes"],
            "columns": {column["name"]: column["kind"] for column in record.columns},
            "dropped": record.dropped,
            "features": _feature_names(record),
            "sources": [
                {"name": source["name"], "rows": source["rows"], "skipped": source["skipped"]}
                for source in record.sources
            ],
        }
    else:
        content["features"] = forest["n_features"]
    return content


def _show(value: Any, indent: int) -> str:
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, dict, list)):
        return "–" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_show(entry, indent)}" for name, entry in value.items())
    if value and isinstance(value[0], dict):
        lines = [f"{entry['name']}: {entry['rows']:,} rows, {entry['skipped']:,} skipped" for entry in value]
        return ("\n" + " " * indent).join(lines)
    return ", ".join(map(str, value)) or "–"


def _feature_names(record: Record) -> list[str]:
    return record.make_encoder().names


# ----------------------------------------------------------------------------------------------------------------------
# forget


def run_forget(options: argparse.Namespace) -> int:
    """Run ``bspforest forget``."""
    where = options.output or options.model
    if options.output and options.output.exists() and not options.overwrite:
        raise UsageError(f"{options.output} is there already: --overwrite replaces it")
    if not where.absolute().parent.is_dir():
        raise UsageError(f"--output {where}: there is no folder {where.parent}")
    ids = _parse_ids(options)
    forest, extra = persistence.load_with_extra(options.model, check="fully")
    forest.forget(ids)
    if extra and KEY in extra:
        encoder = parse_record(extra, options.model).make_encoder()
        encoder.recount(forest._forest.held_rows())
        extra[KEY]["columns"] = encoder.to_json()
    persistence.save(forest, where, extra=extra, overwrite=options.overwrite or not options.output)
    print(f"{len(ids):,} rows forgotten, {forest.n_samples_:,} held: {where}")
    return 0


def _parse_ids(options: argparse.Namespace) -> np.ndarray:
    """The rows named by ``--ids`` or in a file."""
    if options.ids is not None:
        entries = options.ids.split(",")
    elif options.ids_from == "-":
        entries = sys.stdin.read().split("\n")
    else:
        entries = Path(options.ids_from).read_text(encoding="utf-8").split("\n")
    parts = []
    for entry in entries:
        if not entry.strip():
            continue
        found = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18}))?\s*", entry)
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise UsageError(f"{entry.strip()!r} is neither the number of a row, as 17, nor a range, as 100-199")
        first, last = int(found[1]), int(found[2] or found[1])
        if last - first > 10**9:
            raise UsageError(f"{entry.strip()!r} names more rows than any model holds")
        parts.append(np.arange(first, last + 1))
    if not parts:
        raise UsageError("no rows are given")
    return np.concatenate(parts)


# ----------------------------------------------------------------------------------------------------------------------
# plot


def run_plot(options: argparse.Namespace) -> int:
    """Run ``bspforest plot``."""
    try:
        import matplotlib
    except ImportError as error:
        raise NoMatplotlib(error) from None
    matplotlib.use("Agg")
    from ...plotting import SurfaceDisplay

    check_picture(options.output, "--output")

    forest, record = load_model(options.model)
    names = _feature_names(record)
    dims = tuple(_find_feature(name, names, options.model) for name in options.dims)
    if dims[0] == dims[1]:
        raise UsageError("--dims: two different features are expected")
    values = dict(_parse_value(entry, names, options.model) for entry in options.at)
    forest.feature_names_in_ = np.array(names, dtype=object)
    if hasattr(forest, "classes_"):
        forest.classes_ = record.make_target().names
    display = SurfaceDisplay.from_estimator(forest, dims=dims, values=values or None).plot()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(options.output, dpi=150)
    print(f"Picture: {options.output}")
    return 0


def _find_feature(name: str, names: list[str], path: Path) -> int:
    if name not in names:
        raise UsageError(f"{path} has no feature {name!r}. Its features: {', '.join(names)}")
    return names.index(name)


def _parse_value(entry: str, names: list[str], path: Path) -> tuple[int, float]:
    """A feature and the value at which it is held, out of ``NAME=VALUE``."""
    name, _, value = entry.rpartition("=")  # names of features may hold one: colour=red
    try:
        return _find_feature(name, names, path), float(value)
    except ValueError:
        raise UsageError(f"--at {entry}: NAME=NUMBER is expected") from None
