"""The record that the command saves beside the forest: the encoding, the target, and how far each source was learned.

The record is the entry ``KEY`` of the ``extra`` of a model file. A file may be damaged or forged, so `parse_record` checks
the type and the range of every value before any is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files import load_with_extra
from ...files import read_header as read_file_header
from ..errors import CommandError
from ..formatting import format_count
from ..output_files import describe_special
from . import checks
from .checks import WrongValueError, expect

if TYPE_CHECKING:
    from ..data.schema import Schema
    from ..data.stream import Stream
    from ..data.target import Target

KEY, FORMAT = "command", 2

OPTIONAL = ("na_values", "key")  # entries of a record that older ones lack
COLUMN_KINDS = ("number", "boolean", "text")
TARGET_KINDS = ("number", "integer", "boolean", "text")


class DamagedFileError(CommandError):
    """A model file holds values that the command does not write."""

    def __init__(self, path: Path, error: WrongValueError) -> None:
        super().__init__(f"{path}: the model file is damaged: {error}")


@dataclass
class Record:
    """The command's entry in a model file.

    Parameters
    ----------
    columns : list of dict
        Name and kind of each column that the forest learns from.
    target : dict
        The state of the target.
    dropped : list of str
        Columns of the data that are not used.
    chunk_rows : int
        Rows learned at a time, which the result depends on.
    na_values : list of str
        Additional markers of missing values.
    key : str or None
        The column of keys by which rows can be forgotten.
    sources : list of dict
        All data learned, in order; the last is the current one. Each has a name, a path unless it is a pipe, the number
        of rows learned and skipped, and the checksums of the first chunk and of all rows.
    """

    columns: list[dict[str, Any]]
    target: dict[str, Any]
    dropped: list[str]
    chunk_rows: int
    sources: list[dict[str, Any]] = field(default_factory=list)
    na_values: list[str] = field(default_factory=list)
    key: str | None = None

    # Schema and Target import pyarrow, which is optional: models saved from Python are read without it.

    def make_schema(self) -> Schema:
        """Return the kinds of the columns."""
        from ..data.schema import Schema

        return Schema.from_json(self.columns)

    def list_ignored(self) -> tuple[str, ...]:
        """Return the columns of the data that the forest does not learn from, besides the target."""
        return (*self.dropped, *self.list_keys())

    def list_keys(self) -> tuple[str, ...]:
        """Return the column of keys, if there is one."""
        return () if self.key is None else (self.key,)

    def make_target(self) -> Target:
        """Return the target."""
        from ..data.target import Target

        return Target(**self.target)

    def to_extra(self, stream: Stream) -> dict[str, Any]:
        """Return the ``extra`` for the model file, when all rows that the stream has returned are learned."""
        current = {"first": stream.first, **self.sources[-1]}  # a resumed stream began with larger chunks
        current |= {"rows": stream.n_rows, "skipped": stream.n_skipped, "crc": list(stream.crc)}
        return {
            KEY: {
                "format": FORMAT,
                "columns": self.columns,
                "target": self.target if stream.target is None else stream.target.to_json(),
                "dropped": self.dropped,
                "chunk_rows": self.chunk_rows,
                "sources": [*self.sources[:-1], current],
                **({"na_values": self.na_values} if self.na_values else {}),
                **({"key": self.key} if self.key is not None else {}),
            }
        }


# ----------------------------------------------------------------------------------------------------------------------
# Reading model files


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a model file."""
    check_regular(path)
    return read_file_header(path)


def is_compressed(path: Path) -> bool:
    """Return whether a model file is compressed."""
    return bool(read_header(path).get("compressed"))


def load_forest(path: Path) -> tuple[Any, dict[str, Any] | None, Record | None]:
    """Return the forest in a model file, its ``extra``, and the record therein, if the command has saved it."""
    check_regular(path)
    forest, extra = load_with_extra(path)
    if not extra or KEY not in extra:
        return forest, extra, None
    record = parse_record(extra, path)
    try:
        _check_fits(record, forest)
    except WrongValueError as error:
        raise DamagedFileError(path, error) from None
    return forest, extra, record


def load_model(path: Path) -> tuple[Any, Record]:
    """Return the forest in a model file, and the record, without which the command cannot read data for it."""
    forest, _, record = load_forest(path)
    if record is None:
        raise CommandError(
            f"{path} was saved from Python, without the names of the columns: the command cannot read data for it"
        )
    return forest, record


def parse_record(extra: dict[str, Any], path: Path) -> Record:
    """Return the record in the ``extra`` of a model file, with every value checked."""
    try:
        content = checks.check_object(extra[KEY], KEY, ("format",), None)
        number = content["format"]
        expect(number == FORMAT and type(number) is int, f"the record has format {number!r:.50}, expected {FORMAT}")
        names = ("columns", "target", "dropped", "chunk_rows", "sources")
        checks.check_object(content, "the record", (*names, "format"), OPTIONAL)
        record = Record(**{name: content[name] for name in (*names, *OPTIONAL) if name in content})
        _check_columns(record.columns)
        _check_target(record.target, {column["name"] for column in record.columns})
        for k, name in enumerate(checks.check_list(record.dropped, "dropped")):
            checks.check_text(name, f"dropped[{k}]")
        for k, value in enumerate(checks.check_list(record.na_values, "na_values")):
            checks.check_text(value, f"na_values[{k}]")
        checks.check_whole(record.chunk_rows, "chunk_rows", 1)
        if record.key is not None:
            checks.check_text(record.key, "key")
        for k, source in enumerate(checks.check_list(record.sources, "sources", least=1)):
            _check_source(source, f"sources[{k}]")
    except WrongValueError as error:
        raise DamagedFileError(path, error) from None
    return record


# ----------------------------------------------------------------------------------------------------------------------
# Checks


def check_regular(path: Path) -> None:
    """Refuse to open a folder, device or named pipe, which could wait for ever."""
    if (special := describe_special(path)) is not None:
        raise CommandError(f"{path} is {special}, expected a model file")


def _check_columns(columns: Any) -> None:
    names = set()
    for k, column in enumerate(checks.check_list(columns, "columns", least=1)):
        name = f"columns[{k}]"
        checks.check_object(column, name, ("name", "kind"))
        names.add(checks.check_text(column["name"], f"{name}.name"))
        expect(len(names) == k + 1, f"two columns have the name {column['name']!r:.50}")
        checks.check_text(column["kind"], f"{name}.kind", COLUMN_KINDS)


def _check_target(target: Any, columns: set[str]) -> None:
    checks.check_object(target, "target", ("name", "kind", "task", "classes"), ("added", "is_closed"))
    checks.check_text(target["name"], "target.name")
    expect(target["name"] not in columns, "the target is one of the columns")
    kind = checks.check_text(target["kind"], "target.kind", TARGET_KINDS)
    task, classes = (
        checks.check_text(target["task"], "target.task", ("classification", "regression")),
        target["classes"],
    )
    if task == "regression":
        expect(kind == "number" and classes is None, "target: a regression has numbers and no classes")
        expect(not {"added", "is_closed"} & target.keys(), "target: a regression has no classes to add")
        return
    for k, value in enumerate(checks.check_list(classes, "target.classes", least=1)):
        name = f"target.classes[{k}]"
        if kind == "text":
            checks.check_text(value, name)
        elif kind == "integer":
            checks.check_whole(value, name, -(2**63), 2**63 - 1)
        elif kind == "boolean":
            checks.check_bool(value, name)
        else:
            checks.check_number(value, name)
        expect(k == 0 or classes[k - 1] < value, "target.classes are not in order")
    added = checks.check_list(target.get("added", []), "target.added")
    known = {(type(value), value) for value in classes}
    distinct = {(type(value), value) for value in added if not isinstance(value, dict | list)}
    expect(distinct <= known and len(distinct) == len(added), "target.added are not different classes")
    expect(len(added) < len(classes), "target.added are all classes")
    checks.check_bool(target.get("is_closed", False), "target.is_closed")


def _check_source(source: Any, name: str) -> None:
    checks.check_object(source, name, ("name", "rows", "skipped", "crc"), ("path", "first"))
    checks.check_path(source["name"], f"{name}.name")
    checks.check_path(source.get("path", ""), f"{name}.path")
    rows = checks.check_whole(source["rows"], f"{name}.rows")
    checks.check_whole(source["skipped"], f"{name}.skipped")
    _check_crc(source["crc"], f"{name}.crc")
    if "first" in source:
        first = checks.check_list(source["first"], f"{name}.first")
        expect(len(first) == 2, f"{name}.first has {format_count(len(first), 'entry')}, expected 2")
        checks.check_whole(first[0], f"{name}.first[0]", 1, rows)
        _check_crc(first[1], f"{name}.first[1]")


def _check_crc(crc: Any, name: str) -> None:
    expect(len(checks.check_list(crc, name)) == 3, f"{name} has {format_count(len(crc), 'entry')}, expected 3")
    for value in crc:
        checks.check_whole(value, name, 0, 2**32 - 1)


def _check_fits(record: Record, forest: Any) -> None:
    """Check that the record belongs to the forest."""
    names = [column["name"] for column in record.columns]
    known = getattr(forest, "feature_names_in_", None)
    expect(known is not None and known.tolist() == names, "the record has other columns than the forest")
    kinds = [column.kind for column in forest._get_encoder().columns]
    for column, kind in zip(record.columns, kinds, strict=True):
        fits = column["kind"] == kind or (forest._encoder is None and column["kind"] != "text")
        expect(fits, f"the record has the column {column['name']!r:.50} as {column['kind']}, but the forest has not")
    target, labels = record.make_target(), getattr(forest, "classes_", None)
    expect((target.classes is None) == (labels is None), f"the record is for {target.task}, but the forest is not")
    if labels is not None:
        expect(target.labels.tolist() == labels.tolist(), "the record has other classes than the forest")
    learned = sum(source["rows"] for source in record.sources)
    expect(
        learned <= forest.n_samples_seen_,
        f"the record has {format_count(learned, 'row')} learned, but the forest has seen {forest.n_samples_seen_:,}",
    )
