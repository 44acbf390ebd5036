"""``bspforest info``: print what a model file holds, from its header alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from ...forest.settings import Revision
from ...tables.state import make_encoder
from ..formatting import format_count, format_number
from ..model import checks
from ..model.checks import WrongValueError
from ..model.record import KEY, DamagedFileError, Record, parse_record, read_header
from ..terminal import print_json, print_lines

COUNTS = ("n_trees", "n_held", "n_seen", "n_features")
SCALINGS = ("minmax", "quantile", "none", "given range")
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
        lines = FORMATS[name](value) if name in FORMATS else [_format(value)]
        for k, line in enumerate(lines):
            print_lines(f"{name.replace('_', ' ') if k == 0 else '':{width}}  {line}".rstrip())
    return 0


def _summarise(header: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return what a header says, in the order in which it is printed. Entries of a damaged or forged one may be anything."""
    try:
        return _summarise_forest(header, path) | _summarise_record(header, path)
    except WrongValueError as error:
        raise DamagedFileError(path, error) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        wrong = WrongValueError(f"the header lacks an entry, or has a wrong one: {str(error)[:200]}")
        raise DamagedFileError(path, wrong) from None


def _summarise_forest(header: dict[str, Any], path: Path) -> dict[str, Any]:
    forest = header["forest"]
    for name in COUNTS:
        checks.check_whole(forest[name], f"forest.{name}")
    return {
        **{"model": header["estimator"], "saved": header["saved"], "bspforest": header["bspforest"]},
        "bytes": path.stat().st_size,
        **_summarise_compression(header, path),
        "trees": forest["n_trees"],
        "rows": forest["n_held"],
        "rows_seen": forest["n_seen"],
        "budget": _check_float(forest["budget"], "forest.budget"),
        **_summarise_ridge(header),
        "parameters": checks.check_depth(
            checks.check_object(header["parameters"], "parameters", (), None), "parameters"
        ),
    }


def _summarise_compression(header: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return how many times smaller than its content a compressed file is; nothing for other files."""
    if not header["compressed"]:
        return {}
    n_bytes = checks.check_whole(header["bytes"], "bytes")
    return {"compressed": {"bytes": n_bytes, "ratio": n_bytes / path.stat().st_size}}


def _summarise_ridge(header: dict[str, Any]) -> dict[str, Any]:
    """Return what ridge predictions have chosen; nothing is chosen once all rows are forgotten."""
    ridge = header["prediction"]
    if ridge.get("settings") is None:
        return {"prediction": "ridge" if "settings" in ridge else "mean"}
    names = ("bandwidth", "ridge", "validation_error")
    chosen = {name: _check_float(value, name) for name, value in zip(names, ridge["settings"][:3], strict=True)}
    scaling = checks.check_text(header["forest"]["scaling"], "forest.scaling", SCALINGS)
    return {"prediction": "ridge", **chosen, "scaling": scaling, **_summarise_revisions(ridge["revisions"])}


def _summarise_revisions(revisions: Any) -> dict[str, Any]:
    """Return how many revisions are listed, and the last."""
    listed = checks.check_list(revisions, "prediction.revisions")
    if not listed:
        return {"revisions": 0}
    last = dict(zip(Revision._fields, listed[-1], strict=True))
    for name, kind in get_type_hints(Revision).items():
        if kind is not str:
            _check_float(last[name], f"the last revision: {name}")
    return {"revisions": len(listed), "last_revision": last}


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
    features = _list_features(header, record, n_features)
    return {
        "target": record.target["name"],
        "task": record.target["task"],
        "classes": record.target["classes"],
        "columns": {column["name"]: column["kind"] for column in record.columns},
        "dropped": record.dropped,
        **({"key": record.key} if record.key is not None else {}),
        "features": features,
        "sources": [{key: source[key] for key in ("name", "rows", "skipped")} for source in record.sources],
    }


def _list_features(header: dict[str, Any], record: Record, n_features: int) -> list[str]:
    """Return the names of the features."""
    if header["encoder"] is None:
        names = [column["name"] for column in record.columns]
    else:
        try:
            names = make_encoder(header["encoder"]).names
        except (ValueError, TypeError, KeyError) as error:
            raise WrongValueError(f"the encoder: {error}") from None
    checks.expect(
        len(names) == n_features, f"the record has {format_count(len(names), 'feature')}, but the forest {n_features:,}"
    )
    return names


def _format_sources(sources: list[dict[str, Any]]) -> list[str]:
    return [
        f"{source['name']}: {format_count(source['rows'], 'row')}, {source['skipped']:,} skipped" for source in sources
    ]


def _format_revision(revision: dict[str, Any]) -> list[str]:
    entries: list[Any] = [float(value["float"]) if isinstance(value, dict) else value for value in revision.values()]
    return [Revision(*entries).describe()]


def _format_compression(compression: dict[str, Any]) -> list[str]:
    return [f"{compression['ratio']:.2f} times, from {compression['bytes']:,} bytes"]


FORMATS: dict[str, Callable[[Any], list[str]]] = {
    "sources": _format_sources,
    "last_revision": _format_revision,
    "compressed": _format_compression,
}


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
