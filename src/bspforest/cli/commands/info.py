"""``bspforest info``: print what a model file holds, from its header alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ...persistence import read_header
from ..formatting import format_number
from ..model.record import KEY, parse_record


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    summary = _summarise(read_header(options.model), options.model)
    if options.json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return 0
    width = max(map(len, summary))
    for name, value in summary.items():
        print(f"{name.replace('_', ' '):{width}}  {_format(value, width + 2)}".rstrip())
    return 0


def _summarise(header: dict[str, Any], path: Path) -> dict[str, Any]:
    forest = header["forest"]
    summary: dict[str, Any] = {
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
    if not header["extra"] or KEY not in header["extra"]:  # saved from Python
        return {**summary, "features": forest["n_features"]}
    record = parse_record(header["extra"], path)
    return {
        **summary,
        "target": record.target["name"],
        "task": record.target["task"],
        "classes": record.target["classes"],
        "columns": {column["name"]: column["kind"] for column in record.columns},
        "dropped": record.dropped,
        "features": record.make_encoder().names,
        "sources": [{key: source[key] for key in ("name", "rows", "skipped")} for source in record.sources],
    }


def _format(value: Any, indent: int) -> str:
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, dict, list)):
        return "–" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format(entry, indent)}" for name, entry in value.items())
    if value and isinstance(value[0], dict):
        lines = [f"{entry['name']}: {entry['rows']:,} rows, {entry['skipped']:,} skipped" for entry in value]
        return ("\n" + " " * indent).join(lines)
    return ", ".join(map(str, value)) or "–"
