"""CSV at Arrow's speed says of every line what Python's csv says of that line by itself."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.data import csv_lines, encode
from dpexplain.data.csv_lines import CsvSource
from dpexplain.data.spelling import number_of
from rings import examples

NAMES = ["first", "second", "third"]


def line_by_line(content: bytes, columns: int, longest: int) -> list[list[bytes | None]]:
    """The rule, written out: one physical line is one row, whatever it holds."""
    lines = content.split(b"\n")[1:]
    if lines and not lines[-1]:
        lines.pop()
    rows: list[list[bytes | None]] = []
    for line in lines:
        try:
            text = line.decode("utf-8", "surrogateescape").rstrip("\r")
            fields = next(csv.reader([text]), []) if len(line) < longest else []
        except csv.Error:
            fields = []
        whole = len(fields) == columns
        rows.append([f.encode("utf-8", "surrogateescape") or None for f in fields] if whole else [None] * columns)
    return rows


def read(path: Path, content: bytes, rows: int = 3, columns: int = 3) -> list[list[bytes | None]]:
    path.write_bytes(content)
    names = NAMES[:columns]
    source, found = CsvSource([path]), []
    for size, raw in source.batches(names, rows):
        assert size <= rows
        assert [len(raw[name]) for name in names] == [size] * columns
        found += [list(line) for line in zip(*(raw[name].to_pylist() for name in names), strict=True)]
    assert source.count() == len(found)
    assert sum(size for size, _ in source.batches([], rows)) == len(found)
    return found


PIECES = st.sampled_from(
    [b'"', b",", b"\r", b"\n", b"\r\n", b"a", b"1", b" ", b"\0", b"\xef\xbb\xbf", b"\xff", "\u2028é".encode(),
     b'""', b'","']
)  # fmt: skip
FIELDS = st.sampled_from(
    [b"", b"a", b"12", b'"a"', b'"a,b"', b'""', b'"', b'a"b', b'"a""b"', b'"a"b', b' "a"', b'"a" ', b"\xef\xbb\xbfa",
     b"\r", b"-1.5", b"\xff", b'","', b"\0", b"xxxxxxxxxx" * 3]
)  # fmt: skip
LINES = st.lists(FIELDS, min_size=2, max_size=4).map(b",".join)


@settings(max_examples=examples(300))
@given(
    content=st.one_of(
        st.lists(PIECES, max_size=40).map(b"".join),
        st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\n", b""])), max_size=12).map(
            lambda lines: b"".join(line + end for line, end in lines)
        ),
    ),
    block=st.sampled_from([1, 7, 64, 2**23]),
    columns=st.sampled_from([1, 3]),
)
def test_every_line_is_read_by_itself(tmp_path_factory, content, block, columns):
    path = tmp_path_factory.getbasetemp() / "lines.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_lines, "BLOCK", block)
        patch.setattr(csv_lines, "LONGEST", 60)
        patch.setattr(csv_lines, "LONGEST_PLAIN", 40)
        whole = ",".join(NAMES[:columns]).encode() + b"\n" + content
        assert read(path, whole, columns=columns) == line_by_line(whole, columns, 60)


def test_plain_lines_with_quotes_are_left_to_arrow():
    """Files in which every text stands in quotes are common, and must not be read line by line."""
    block = b'"a","b,c",1\r\n"","x",2\na,"b",""\n'
    _, _, odd = csv_lines.plain_or_odd(block, 3)
    assert odd.tolist() == []
    _, _, odd = csv_lines.plain_or_odd(b'"a""b",c,1\na,b,c\n"a,b\nc",d\n', 3)
    assert odd.tolist() == [0, 2, 3]


def test_a_quote_that_is_never_closed_changes_no_other_line(tmp_path):
    lines = [b"first,second,third", *([b"1,2,3"] * 50), b'1,"2,3', *([b"1,2,3"] * 50), b""]
    rows = read(tmp_path / "open.csv", b"\n".join(lines), rows=1000)
    assert rows.count([b"1", b"2", b"3"]) == 100
    assert rows[50] == [None] * 3


def test_lines_that_are_too_long_are_one_row_each(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_lines, "BLOCK", 1000)
    long = b"1," + b"x" * csv_lines.LONGEST + b",3"
    limit = b"1," + b"x" * (csv_lines.LONGEST - 5) + b",3"  # with its end just short enough
    rows = read(tmp_path / "long.csv", b"\n".join([b"first,second,third", b"1,2,3", long, b"4,5,6", limit, long]))
    assert rows[0] == [b"1", b"2", b"3"]
    assert rows[2] == [b"4", b"5", b"6"]
    assert rows[1] == rows[3] == rows[4] == [None] * 3  # Python's csv has a limit for a field


# Numbers in texts -----------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats().map(repr), st.integers().map(str), st.decimals(allow_nan=False).map(str),
    st.text("0123456789.eE+-xXinfatyNA_() \t", max_size=12),
    st.sampled_from(["nan", "-nan", "nan(1)", "inf", "-Infinity", ""]),
    st.from_regex(r"\A[+-]?[0-9]{0,25}\.?[0-9]{0,25}(e[+-]?[0-9]{1,4})?\Z"),
)  # fmt: skip


@settings(max_examples=examples(400))
@given(texts=st.lists(NUMBERS, min_size=1, max_size=5))
def test_texts_become_the_numbers_that_each_of_them_stands_for(texts):
    known = [number_of(text) for text in texts]
    wanted = np.array([np.nan if one is None else one for one in known])
    for kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        raw = pa.array([*texts, None]).cast(kind)
        np.testing.assert_array_equal(encode._spelled_numbers(raw), [*wanted, np.nan])
        for text, one in zip(texts, wanted, strict=True):
            np.testing.assert_array_equal(encode._spelled_numbers(pa.array([text]).cast(kind)), [one])


def test_bytes_that_are_no_text_are_missing_and_change_no_others():
    raw = pa.array([b"\xff", b"1.5", b" 2", None], pa.binary())
    np.testing.assert_array_equal(encode.encode(dpx.Numeric(0, 5, missing=3), raw), [3, 1.5, 2, 3])
