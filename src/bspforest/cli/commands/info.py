"""``bspforest info``: print what a model file holds, from its header alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..formatting import format_number
from ..model import checks
from ..model.record import KEY, DamagedFileError, check_features, parse_record, read_header
from ..terminal import print_json, print_lines

COUNTS = ("n_trees", "n_held", "n_seen", "n_features")
LONGEST_VALUE = 200  # characters of a parameter that is shown


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    header = read_header(options.model)
    summary = _summarise(header, options.model)
    if options.json:
        print_json(summary)
        return 0
    width = max(map(len, summary))
    for name, value in summary.items():
        lines = _format_sources(value) if name == "sources" else [_format(value)]
        for k, line in enumerate(lines):
            print_lines(f"{name.replace('_', ' ') if k == 0 else '':{width}}  {line}".rstrip())
    return 0


def _summarise(header: dict[str, Any], path: Path) -> dict[str, Any]:
    try:
        return _summarise_forest(header, path) | _summarise_record(header, path)
    except checks.WrongValueError as error:
        raise DamagedFileError(path, error) from None


def _summarise_forest(header: dict[str, Any], path: Path) -> dict[str, Any]:
    checks.check_object(
        header, "the header", ("estimator", "saved", "bspforest", "forest", "parameters", "extra"), None
    )
    forest = checks.check_object(header["forest"], "forest", (*COUNTS, "budget"), None)
    for name in COUNTS:
        checks.check_whole(forest[name], f"forest.{name}")
    _check_float(forest["budget"], "forest.budget")
    return {
        "model": checks.check_text(header["estimator"], "estimator"),
        "saved": checks.check_text(header["saved"], "saved"),
        "bspforest": checks.check_text(header["bspforest"], "bspforest"),
        "bytes": path.stat().st_size,
        "trees": forest["n_trees"],
        "rows": forest["n_held"],
        "rows_seen": forest["n_seen"],
        "budget": forest["budget"],
        **_summarise_values(forest),
        "parameters": checks.check_depth(
            checks.check_object(header["parameters"], "parameters", (), None), "parameters"
        ),
    }


def _summarise_values(forest: dict[str, Any]) -> dict[str, Any]:
    checks.check_object(forest, "forest", ("values", "joint"), None)
    values = checks.check_text(forest["values"], "forest.values", ("mean", "joint"))
    if values == "mean":
        return {"values": values}
    joint = checks.check_object(forest["joint"], "forest.joint", ("choice",), None)
    if joint["choice"] is None:  # all rows were forgotten
        return {"values": values}
    choice = checks.check_list(joint["choice"], "forest.joint.choice")
    checks.expect(len(choice) == 3, f"forest.joint.choice has {len(choice)} entries, expected 3")
    names = ("bandwidth", "ridge", "validation_error")
    return {"values": values} | {name: _check_float(value, name) for name, value in zip(names, choice, strict=True)}


def _check_float(value: Any, name: str) -> Any:
    """Return a number as the header has it: infinity and NaN are objects."""
    if value not in ({"float": "inf"}, {"float": "nan"}):
        checks.check_number(value, name)
    return value


def _summarise_record(header: dict[str, Any], path: Path) -> dict[str, Any]:
    n_features = header["forest"]["n_features"]
    if not header["extra"] or KEY not in header["extra"]:  # saved from Python
        return {"features": n_features}
    record = parse_record(header["extra"], path)
    features = check_features(record, n_features)
    return {
        "target": record.target["name"],
        "task": record.target["task"],
        "classes": record.target["classes"],
        "columns": {column["name"]: column["kind"] for column in record.columns},
        "dropped": record.dropped,
        "features": features,
        "sources": [{key: source[key] for key in ("name", "rows", "skipped")} for source in record.sources],
    }


def _format_sources(sources: list[dict[str, Any]]) -> list[str]:
    return [f"{source['name']}: {source['rows']:,} rows, {source['skipped']:,} skipped" for source in sources]


def _format(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"float"}:
        return str(value["float"])
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_entry(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return ", ".join(map(_format_entry, value)) or "–"
    return _format_entry(value)


def _format_entry(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, int):
        return f"{value:,}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
