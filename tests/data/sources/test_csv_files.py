"""Records, cells and numbers of CSV text, without TensorFlow."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.errors.data import Where
from tfdeploy.data.sources import csv_files as module
from tfdeploy.data.sources.csv_files import Layout, QuoteError, cells, layout, rows

WHERE = Where("a.csv")


@given(st.lists(st.text('a", \n'), min_size=1), st.booleans())
def test_cells_come_back_as_they_were_written(texts: list[str], always: bool) -> None:
    """Quoted where that is needed, or everywhere; each knows its place in the row."""
    written = [
        '"{}"'.format(each.replace('"', '""')) if always or set(each) & set('",\n') else each
        for each in texts
    ]
    row = ",".join(written)
    found = cells(row)
    assert [each.text for each in found] == texts
    assert [row[each.start : each.end] for each in found] == written


@pytest.mark.parametrize(
    ("row", "start", "reason"),
    [
        ('a,b"c', 3, "a quote inside a cell that does not begin with one"),
        ('a,"b', 2, "a quote that is never closed"),
        ('"a""', 0, "a quote that is never closed"),
        ('a,"b"c', 5, "text after the closing quote of a cell"),
        ('"a" ,b', 3, "text after the closing quote of a cell"),
    ],
)
def test_quotes_that_are_no_pairs_have_a_place(row: str, start: int, reason: str) -> None:
    """Where the fault is, in the row."""
    with pytest.raises(QuoteError) as caught:
        cells(row)
    assert (caught.value.start, caught.value.reason) == (start, reason)


@given(st.text('a",\r\n').map(str.encode), st.sampled_from([1, 2, 3, 1 << 22]))
def test_records_are_counted_as_they_are_read(data: bytes, chunk: int) -> None:
    """In pieces of any size, whatever line ends, blank lines and quotes there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        found = layout(BytesIO(data))
    read = list(rows(BytesIO(data)))
    assert found.records == len(read)
    assert found.quoted_lines == any(b"\n" in each.raw or each.raw.count(b'"') % 2 for each in read)
    lines = data.split(b"\n")
    assert all(lines[each.number - 1].startswith(each.raw.split(b"\n")[0].rstrip(b"\r")) for each in read)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", Layout(0)),
        (b"a", Layout(1)),
        (b"a\nb\n", Layout(2)),
        (b"a\nb", Layout(2)),
        (b"a\r\nb\r\n", Layout(2)),
        (b"\na\n", Layout(1, blank_lines=True)),
        (b"\r\na\r\n", Layout(1, blank_lines=True)),
        (b"a\n\nb\n", Layout(2, blank_lines=True)),
        (b'"a"\nb\n', Layout(2)),
        (b'"a\n\nb"\nc\n', Layout(2, quoted_lines=True)),
        (b'\n"a\nb"\n', Layout(1, blank_lines=True, quoted_lines=True)),
        (b"0x1\n2\n", Layout(2)),
        (b"a\n0X1\n", Layout(2, hexadecimal=True)),
        (b'a\n"0x1"\n', Layout(2, hexadecimal=True)),
    ],
)
def test_the_layout_of_a_file(data: bytes, found: Layout) -> None:
    """A blank line in quotes is part of a cell."""
    assert layout(BytesIO(data)) == found


def test_a_quote_that_is_missing_ends_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record goes on for so many bytes at the most."""
    monkeypatch.setattr(module, "LONGEST", 8)
    found = list(rows(BytesIO(b'"a\nbc\ndef\ngh\n')))
    assert [(each.number, each.raw) for each in found] == [(1, b'"a\nbc\ndef'), (4, b"gh")]


@pytest.mark.parametrize(
    ("dtype", "good", "bad", "code"),
    [
        ("int8", ["127", "-128", "+1", " 1\t", "007"], ["128", "-129"], "TFD707"),
        ("uint8", ["0", "255"], ["-1", "256"], "TFD707"),
        ("bool", ["0", "1"], ["2", "-1"], "TFD707"),
        ("int64", [str(2**63 - 1)], [str(2**63)], "TFD707"),
        ("int32", [], ["", "1.0", "1e3", "0x1", "1_000", "--1", "\uff11", "true"], "TFD706"),
        ("float16", ["65504", "-65504", "1e-9"], ["65505", "-7e4"], "TFD707"),
        ("float32", ["3.4028235e38", "1.", ".5", "+1E+3"], ["3.41e38"], "TFD707"),
        ("bfloat16", ["3.3895e38"], ["3.39e38"], "TFD707"),
        ("float64", ["1.7e308"], ["1e309", "-1e400"], "TFD707"),
        (
            "float64",
            [],
            ["", ".", "1e", "e5", "1,5", "1 2", "0x1", "\uff11", "nan", "-INF", "Infinity"],
            "TFD706",
        ),
        ("string", ["", "anything"], [], ""),
    ],
)
def test_what_is_a_number_of_a_dtype(dtype: str, good: list[str], bad: list[str], code: str) -> None:
    """As TensorFlow reads it; what has too many digits is told from what is no number."""
    assert [each for each in good if module.fault_of(WHERE, each, dtype) is not None] == []
    found = [module.fault_of(WHERE, each, dtype) for each in bad]
    assert [each.code if each is not None else None for each in found] == [code] * len(bad)
