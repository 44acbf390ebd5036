"""All formats give the same rows wherever blocks end, and malformed rows are reported with their line."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bspforest.cli.data import csv_cleaning, csv_source, table_sources
from bspforest.cli.data.csv_source import CsvSource
from bspforest.cli.data.sources import open_source
from bspforest.cli.errors import CommandError

# Quotes, doubled quotes, a byte order mark, CRLF, blank lines, quoted line ends, ragged rows, bytes that are not UTF-8.
MESSY = (
    b'\xef\xbb\xbf\r\n size ,price,"name"\r\n1,2,x\r\n\r\n3,"4",y\r\n"5",6,"two\r\nlines"\r\n7,8\r\n9,abc,z\r\n'
    b'11,12,13,14\r\n1,2,"a ""q"", b"\r\n3,,\xff\r\n\r\n1,2,5" pipe\r\nNA,?,end'
)
GOOD = [
    ("line 3", 1.0, 2.0, "x"),
    ("line 5", 3.0, 4.0, "y"),
    ("line 6", 5.0, 6.0, "two\r\nlines"),
    ("line 11", 1.0, 2.0, 'a "q", b'),
    ("line 14", 1.0, 2.0, '5" pipe'),
    ("line 15", None, None, "end"),
]
BAD = [
    ("line 8", "2 fields where 3 are expected: '7,8'"),
    ("line 9", "'abc' in column 'price' is not a number"),
    ("line 10", "4 fields where 3 are expected: '11,12,13,14'"),
    ("line 12", "b'\\xff' in column 'name' is not text in UTF-8"),
]
KINDS = {"size": "number", "price": "number", "name": "text"}


def read_all(source, kinds, n_sample=0):
    """Return all rows with their locations, and all rejected rows."""
    if n_sample:
        source.sample(n_sample)
    rows, rejected = [], []
    for block in source.read(kinds):
        rejected += [(str(location), reason) for location, reason, _ in block.rejected]
        values = [block.columns[name].to_pylist() for name in kinds]
        rows += [(str(block.locate(i)), *entries) for i, entries in enumerate(zip(*values, strict=True))]
    return rows, rejected


@pytest.mark.parametrize("block", [1, 5, 16, 40, 1 << 20])
@pytest.mark.parametrize("n_sample", [0, 2, 100])
def test_messy_csv(block, n_sample, monkeypatch):
    monkeypatch.setattr(csv_source, "BLOCK", block)
    source = CsvSource(io.BytesIO(MESSY), "messy.csv")
    assert source.columns == ["size", "price", "name"]
    rows, rejected = read_all(source, KINDS, n_sample)
    assert rows == GOOD
    assert rejected == BAD


field = st.text(alphabet='ab,"\n\r; é1', max_size=6)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(field, min_size=2, max_size=2), min_size=1, max_size=12), st.integers(1, 60), st.booleans())
def test_csv_is_read_as_by_the_standard_library(rows, block, crlf):
    """Rows and their lines are those of Python's csv module, for any fields and any block size."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n" if crlf else "\n")
    writer.writerows([["a", "c"], *rows])  # no row is the header once more
    lines, line = [], 2
    for row in rows:
        lines.append(f"line {line}")
        line += 1 + sum(len(value.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1 for value in row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_source, "BLOCK", block)
        source = CsvSource(io.BytesIO(text.getvalue().encode()), "any.csv", delimiter=",")
        found, rejected = read_all(source, {"a": "text", "c": "text"})
    assert found == [(line, *row) for line, row in zip(lines, rows, strict=True)]
    assert not rejected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n\r\n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,a\n1,2\n", "two columns named 'a'"),
        (b"\xff\xfea\x00", "UTF-16"),
        (b'\na,"b\n1,2\n', "line 2: a quote is opened and never closed: 'a,\"b'"),
        (b'a,"b,c\n1,"2",3\n', "line 1: a quote is opened and never closed: 'a,\"b,c'"),
    ],
)
def test_invalid_csv_is_refused(data, message):
    with pytest.raises(CommandError, match=message):
        CsvSource(io.BytesIO(data), "data.csv").sample(10)


# A quote that is not closed: within other quoted fields, after a field with a line end, before an empty field, at the end.
UNCLOSED = (
    b'a,t,b\r\n1,x,2\r\n3,"y,4\r\n5,"z",6\r\n"7","one\r\ntwo",8\r\n9,"three\r\nfour","10\r\n'
    b'11,"",12\r\n13,"",14\r\n15,"v ""w""",16\r\n17,"u,18\r\n\r\n19,s,20\r\n21,"r'
)


@pytest.mark.parametrize("block", [1, 7, 30, 1 << 20])
@pytest.mark.parametrize("n_sample", [0, 100])
def test_unclosed_quote_is_one_malformed_row(block, n_sample, monkeypatch):
    """The rows after it are read as if it were not there."""
    monkeypatch.setattr(csv_source, "BLOCK", block)
    source = CsvSource(io.BytesIO(UNCLOSED), "data.csv")
    rows, rejected = read_all(source, {"a": "number", "t": "text", "b": "number"}, n_sample)
    assert rows == [
        ("line 2", 1.0, "x", 2.0),
        ("line 4", 5.0, "z", 6.0),
        ("line 5", 7.0, "one\r\ntwo", 8.0),
        ("line 9", 11.0, "", 12.0),
        ("line 10", 13.0, "", 14.0),
        ("line 11", 15.0, 'v "w"', 16.0),
        ("line 14", 19.0, "s", 20.0),
    ]
    never = "a quote is opened and never closed"
    assert rejected == [
        ("line 3", f"{never}: '3,\"y,4'"),
        ("line 7", f'{never}: \'9,"three\\r\\nfour","10\''),
        ("line 12", f"{never}: '17,\"u,18'"),
        ("line 15", f"{never}: '21,\"r'"),
    ]


@pytest.mark.parametrize("block", [100, 1 << 20])
def test_quote_that_is_closed_too_late(block, monkeypatch):
    """It must not fill the memory, and does not take more rows with it than its own."""
    monkeypatch.setattr(csv_cleaning, "LONGEST_FIELD", 1000)
    monkeypatch.setattr(csv_source, "BLOCK", block)
    lines = b"".join(b"%d,x\n" % k for k in range(500))
    source = CsvSource(io.BytesIO(b'a,b\n1,2\n3,"' + lines + b'4,"\n'), "data.csv")
    rows, rejected = read_all(source, {"a": "number", "b": "text"})
    assert rejected[0] == ("line 3", "a quote is opened and not closed within 1,000 bytes: '3,\"0,x'")
    assert rejected[1:] == [("line 503", "a quote is opened and never closed: '4,\"'")]
    assert [row[1] for row in rows] == [1.0, *range(1, 500)]
    source = CsvSource(io.BytesIO(b'a,b\n1,"' + b"x" * 5000 + b'"\n'), "data.csv")
    assert read_all(source, {"a": "number", "b": "text"})[1] == []  # on one line, it may be long


@pytest.mark.parametrize("block", [1, 9, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_repeated_headers(block, end, monkeypatch):
    """Also with a byte order mark and at the end; not within a quoted field, and not a row that only begins like it."""
    monkeypatch.setattr(csv_source, "BLOCK", block)
    lines = ["a,t", "1,x", "a,t", "\ufeffa,t ", "2,y", "a,tt", '3,"', "a,t", '"', "4,a", "a,t"]
    source = CsvSource(io.BytesIO(end.join(lines).encode()), "data.csv")
    kinds = {"a": "number", "t": "text"}
    source.sample(100)
    blocks = list(source.read(kinds))
    rows = [row for b in blocks for row in zip(*(b.columns[name].to_pylist() for name in kinds), strict=True)]
    assert rows == [(1.0, "x"), (2.0, "y"), (3.0, f"{end}a,t{end}"), (4.0, "a")]
    assert [row[:2] for b in blocks for row in b.rejected] == [(("line", 6), "'a' in column 'a' is not a number")]
    assert [notice for b in blocks for notice in b.notices] == [
        f"line {k}: the header once more, which is skipped" for k in (3, 4, 11)
    ]


def test_header_of_numbers_is_not_skipped():
    """A first line of numbers, without --no-header, could as well be a row."""
    source = CsvSource(io.BytesIO(b"1,2\n3,4\n1,2\n"), "data.csv")
    assert [row[1] for row in read_all(source, {"1": "number", "2": "number"})[0]] == [3.0, 1.0]


def test_record_without_end_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(csv_source, "LONGEST", 5000)
    monkeypatch.setattr(csv_source, "BLOCK", 1000)
    data = b"a,b\n1,2\n3," + b"x" * 20_000 + b"\n"
    with pytest.raises(CommandError, match=r"line 3: no end of the record within"):
        read_all(CsvSource(io.BytesIO(data), "data.csv"), {"a": "number", "b": "text"})
    with pytest.raises(CommandError, match=r"line 1: no end of the record within"):
        CsvSource(io.BytesIO(data.replace(b"\n", b" ")), "data.csv")


def test_delimiters_and_headers():
    source = CsvSource(io.BytesIO(b"a;b\n1;2,5\n"), "data.csv")
    assert read_all(source, {"a": "number", "b": "text"})[0] == [("line 2", 1.0, "2,5")]
    source = CsvSource(io.BytesIO(b"1|2\n3|4\n"), "data.csv", header=False)
    assert read_all(source, {"c1": "number", "c2": "number"})[0] == [("line 1", 1.0, 2.0), ("line 2", 3.0, 4.0)]


def test_kinds_of_columns():
    data = b"i,f,t,b,d,when,gap,mixed\n1,1.5,x,true,2024-01-31,2024-01-31T10:00:00Z,,1\n,2,y,False,2024-02-01,,,x\n"
    kinds, first = CsvSource(io.BytesIO(data), "data.csv").sample(10)
    assert list(kinds.values()) == ["integer", "number", "text", "boolean", "date", "date", "number", "text"]
    assert first["t"].to_pylist() == ["x", "y"]


# ----------------------------------------------------------------------------------------------------------------------
# All formats

TABLE = pa.table(
    {
        "x": pa.array([float(k) if k % 7 else None for k in range(100)]),
        "t": pa.array([f"v{k % 3}" for k in range(100)]),
        "b": pa.array([k % 2 == 0 for k in range(100)]),
        "y": pa.array(range(100)),
    }
)
TABLE_KINDS = {"x": "number", "t": "text", "b": "boolean", "y": "integer"}


def as_csv() -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TABLE.column_names)
    writer.writerows(["" if v is None else v for v in row.values()] for row in TABLE.to_pylist())
    return text.getvalue().encode()


def write_csv(path, pack):
    path.write_bytes(pack(as_csv()))


def write_ipc_stream(path):
    with pa.ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=30)


def write_npz(path):
    columns = {name: TABLE[name].to_numpy() for name in TABLE.column_names}
    np.savez_compressed(path, **{**columns, "t": columns["t"].astype("U2"), "b": columns["b"].astype(bool)})


def write_folder(path):
    path.mkdir()
    for k in range(4):
        pq.write_table(TABLE.slice(25 * k, 25), path / f"part-{k}.parquet")


WRITERS = {
    "plain.csv": lambda path: write_csv(path, bytes),
    "data.csv.gz": lambda path: write_csv(path, gzip.compress),
    "data.csv.bz2": lambda path: write_csv(path, bz2.compress),
    "data.csv.xz": lambda path: write_csv(path, lzma.compress),
    "data.csv.zst": lambda path: write_csv(path, lambda data: pa.compress(data, "zstd", asbytes=True)),
    "data.parquet": lambda path: pq.write_table(TABLE, path, row_group_size=33),
    "data.arrow": lambda path: pa.feather.write_feather(TABLE, str(path)),
    "stream.arrows": write_ipc_stream,
    "data.npz": write_npz,
    "folder": write_folder,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(name, tmp_path, monkeypatch):
    monkeypatch.setattr(table_sources, "BATCH", 7)
    path = tmp_path / name
    WRITERS[name](path)
    source = open_source(str(path))
    assert source.columns == TABLE.column_names
    kinds, _ = source.sample(40)
    assert kinds == TABLE_KINDS
    rows, rejected = read_all(source, kinds)
    assert [row[1:] for row in rows] == [tuple(row.values()) for row in TABLE.to_pylist()]
    assert not rejected
    assert [row[0] for row in rows][:2] == (["line 2", "line 3"] if "csv" in name else ["row 1", "row 2"])


def test_numpy_archive_of_a_matrix(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((50, 3)), rng.integers(0, 2, 50)
    for order in "CF":
        np.savez(
            tmp_path / "m.npz", X=np.array(X, order=order), y=y, feature_names=np.array(["a", "b", "c"]), origin="here"
        )
        source = open_source(str(tmp_path / "m.npz"))
        assert source.columns == ["a", "b", "c", "y"]
        rows, _ = read_all(source, {"a": "number", "c": "number", "y": "integer"})
        np.testing.assert_array_equal([row[1:3] for row in rows], X[:, [0, 2]])
        assert [row[3] for row in rows] == y.tolist()


def test_folder_with_columns_in_its_path(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(TABLE.select(["x", "y"]).slice(0, 3), tmp_path / f"year={year}" / "a.parquet")
    source = open_source(str(tmp_path))
    assert source.columns == ["x", "y", "year"]
    rows, _ = read_all(source, {"year": "number", "y": "integer"})
    assert [row[1:] for row in rows] == [(year, k) for year in (2023.0, 2024.0) for k in range(3)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["x", "t"], "b.parquet lacks the column 'y'"), (["x", "y", "b"], "b.parquet has a new column, 'b'")],
)
def test_folder_whose_columns_differ(columns, message, tmp_path):
    pq.write_table(TABLE.select(["x", "y"]), tmp_path / "a.parquet")
    pq.write_table(TABLE.select(columns), tmp_path / "b.parquet")
    with pytest.raises(CommandError, match=message):
        read_all(open_source(str(tmp_path)), {"x": "number", "y": "integer"})


@pytest.mark.parametrize("n", [2, 100])
def test_folder_whose_types_and_order_differ(n, tmp_path):
    """The rows are the same whether the other files are part of the sample or not."""
    files = [
        {"x": pa.array([1, 2]), "t": ["a", "b"], "code": pa.array([7, 8])},
        {"t": pa.array(["c", None]).dictionary_encode(), "code": ["9", "10"], "x": pa.array([0.5, None])},
        {
            "code": pa.array([11], pa.int8()),
            "x": pa.array([2.5], pa.float32()),
            "t": pa.array(["d"], pa.large_string()),
        },
        {"x": pa.nulls(1), "t": pa.nulls(1), "code": pa.array([12.5])},
    ]
    for k, columns in enumerate(files):
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet")
    source = open_source(str(tmp_path))
    kinds, first = source.sample(n)
    assert source.columns == ["x", "t", "code"] and list(map(len, first.values())) == [min(n, 6)] * 3
    assert n == 2 or kinds == {"x": "number", "t": "text", "code": "number"}
    rows, rejected = read_all(source, {"x": "number", "t": "text", "code": "number"})
    assert [row[1] for row in rows] == [1.0, 2.0, 0.5, None, 2.5, None] and not rejected
    assert [row[2] for row in rows] == ["a", "b", "c", None, "d", None]
    assert [row[3] for row in rows] == [7, 8, 9, 10, 11, 12.5]


def test_unreadable_files(tmp_path):
    with pytest.raises(CommandError, match="folder without Parquet"):
        open_source(str(tmp_path))
    nested = pa.table({"x": pa.array([[1, 2], [3]])})
    pq.write_table(nested, tmp_path / "nested.parquet")
    with pytest.raises(CommandError, match="--drop x"):
        open_source(str(tmp_path / "nested.parquet")).sample(10)
    assert open_source(str(tmp_path / "nested.parquet")).sample(10, drop=("x",)) == ({}, {})
    (tmp_path / "short.csv.gz").write_bytes(gzip.compress(as_csv())[:-30])
    with pytest.raises(CommandError, match=r"short.csv.gz: [Tt]runcated"):
        read_all(open_source(str(tmp_path / "short.csv.gz")), TABLE_KINDS)


class Endless(io.RawIOBase):
    """A pipe with 8 MB of CSV, generated while it is read."""

    def __init__(self) -> None:
        self.left = 8 << 20
        self.lines = b'1.5,"a ""b""",2\n' * 4096

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if self.left == 8 << 20:
            given = b"x,t,y\n"
        else:
            given = self.lines[: len(buffer) // 16 * 16][: max(self.left, 0) // 16 * 16]
        self.left -= len(given)
        buffer[: len(given)] = given
        return len(given)


def test_memory_does_not_grow_with_the_data():
    source = CsvSource(io.BufferedReader(Endless(), 1 << 16), "pipe")
    rows, most = 0, 0
    tracemalloc.start()
    try:
        for block in source.read({"x": "number", "t": "text", "y": "number"}):
            rows += block.n_rows
            most = max(most, pa.total_allocated_bytes())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows > 500_000
    assert peak < 2 << 20 and most < 2 << 20
