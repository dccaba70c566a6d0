"""Texts of absurd size, depth and kind are refused or read, in words."""

from pathlib import Path

import pytest

import grammar
from grammar import lark_parser
from grammar.reports import MOST_TOKENS

MODEL = 'model "m" {\n  x = input(float32, [1])\n  y = x -> Dense(1)\n  output = y\n}\n'


def codes(text: str) -> list[str]:
    """Return the codes of the errors of a text."""
    return [each.code for each in grammar.read("spec.tfdeploy", text=text).diagnostics if each.is_error]


@pytest.mark.parametrize("bracket", ["(", "[", "{", "x = (", "x = [", "a {"])
def test_ten_thousand_brackets_are_refused(bracket: str) -> None:
    """Nesting is refused at the first bracket that is too deep, and nothing else is said."""
    assert codes(f"tfdeploy = 1\n{bracket * 10_000}") == ["TFD108"]


def test_fifty_brackets_are_read() -> None:
    """The deepest nesting that is allowed gives its value."""
    spec = f"tfdeploy = 1\nlet {{ n = {'(' * 49}2{')' * 49} }}\nclones {{ count = n }}\n{MODEL}"
    reading = grammar.read("spec.tfdeploy", text=spec)
    assert reading.spec.clones.count == 2


def test_names_of_a_hundred_kilobytes_are_refused() -> None:
    """A name, and a label, beyond all measure give one error each."""
    assert codes(f"tfdeploy = 1\nlet {{ {'a' * 100_000} = 1 }}\n{MODEL}") == ["TFD109"]
    assert codes(f'tfdeploy = 1\nmodel "{"a" * 100_000}" {{ }}\n') == ["TFD208"]


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    "text",
    [
        "tfdeploy = 1\nlet { a = " + "1+" * 10_000 + "1 }\n" + MODEL,
        "tfdeploy = 1\nlet { a = " + "-" * 10_000 + "1 }\n" + MODEL,
        "tfdeploy = 1\n" + MODEL.replace("Dense(1)", "Dense(1)" + " -> Dense(1)" * 10_000),
        "tfdeploy = 1\nlet {\n"
        + "".join(f"a{i} = a{i + 1}\n" for i in range(10_000))
        + "a10000 = 1\n}\n"
        + MODEL,
    ],
    ids=["sum", "signs", "flow", "constants"],
)
def test_long_chains_are_read(text: str) -> None:
    """Chains of ten thousand parts are not too deep."""
    assert codes(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "@#$%&!~ " * 6_000,
        "x 3\n" * 12_000,
        '"\n' * 25_000,
        "x = ]\n" * 8_000,
        "," * 50_000,
    ],
    ids=["signs", "items", "quotes", "brackets", "commas"],
)
def test_much_nonsense_is_refused_with_few_errors(text: str) -> None:
    """Of a text with countless faults only the first are looked for."""
    assert 0 < len(codes(text)) <= 200


@pytest.mark.family(every=3)
@pytest.mark.parametrize("text", ["\n", ")", "x = 1\n", "'a' ", '"a', "; ", "@"])
def test_more_words_than_a_spec_may_have_are_refused_without_being_read(text: str) -> None:
    """No more tokens than are allowed are made of a text, and no more of it is looked at."""
    (error,) = grammar.read("spec.tfdeploy", text="tfdeploy = 1\n" + text * 100_000).diagnostics
    assert (error.code, error.span is not None) == ("TFD114", True)
    made = lark_parser.lex(error.span.source.text[: error.span.end])
    assert len(made) == MOST_TOKENS + 1


def test_the_words_of_all_files_are_counted_together(tmp_path: Path) -> None:
    """Files that are small enough alone are refused together."""
    half = "# a comment\n" + "\n" * (MOST_TOKENS // 2 + 10)
    for name in "ab":
        (tmp_path / f"{name}.tfdeploy").write_text(half)
    main = f'tfdeploy = 1\ninclude = ["a.tfdeploy"MORE]\n{MODEL}'
    path = tmp_path / "main.tfdeploy"
    path.write_text(main.replace("MORE", ""))
    assert not any(each.is_error for each in grammar.read(path).diagnostics)
    path.write_text(main.replace("MORE", ', "b.tfdeploy"'))
    (error,) = (each for each in grammar.read(path).diagnostics if each.is_error)
    assert (error.code, error.span and error.span.source.name) == ("TFD114", str(tmp_path / "b.tfdeploy"))


def test_a_text_that_is_given_is_bounded_like_a_file() -> None:
    """A text beyond the size of files is refused before it is cut into tokens."""
    assert codes("#" * 10_000_001) == ["TFD193"]


def test_a_long_sum_of_tensors_is_refused_at_the_operand_that_is_too_many() -> None:
    """A hundred signs are read, and sums within sums to the deepest bracket end in words."""
    text = f"tfdeploy = 1\n{MODEL.replace('Dense(1)', 'Dense(1)' + chr(10) + '  z = SUM')}"
    assert codes(text.replace("SUM", "x" + " + x" * 100)) == []
    (error,) = grammar.read("a", text=text.replace("SUM", "x" + " + x" * 101)).diagnostics
    assert (error.code, error.span and error.span.text) == ("TFD108", "x")
    nested = "x"
    for _ in range(45):
        nested = f"({nested}{' + x' * 95})"
    assert codes(text.replace("SUM", nested)) == ["TFD518"]


def test_a_cluster_has_a_bounded_number_of_devices() -> None:
    """The product of tasks and devices is bounded, and is refused before a device is made."""
    devices = 'devices {{ job "worker" {{ tasks = {}, gpu = {} }} }}\n'
    assert codes(f"tfdeploy = 1\n{MODEL}{devices.format(25_000, 3)}") == []
    (error,) = grammar.read("a", text=f"tfdeploy = 1\n{MODEL}{devices.format(25_000, 4)}").diagnostics
    assert (error.code, error.span and error.span.text) == ("TFD305", "4")


def test_files_that_are_no_specs_are_refused(tmp_path: Path) -> None:
    """A missing, binary, foreign, huge or empty file, and a directory, give one error with its name."""
    contents = {
        "binary": b"\x00\x01\x02",
        "latin": "größe".encode("latin-1"),
        "large": b"#" * 10_000_001,
        "empty": b"",
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    wanted = {
        "binary": "TFD192",
        "latin": "TFD192",
        "large": "TFD193",
        "empty": "TFD110",
        "missing": "TFD190",
        ".": "TFD191",
    }
    for name, code in wanted.items():
        reading = grammar.read(tmp_path / name)
        assert reading.spec is None
        assert [each.code for each in reading.diagnostics] == [code]
        assert str(tmp_path / name) in next(iter(reading.diagnostics)).message


def test_the_longest_range_is_read_and_a_longer_one_is_not() -> None:
    """A range has up to 100,000 numbers, both ends counted."""
    devices = 'devices {{ job "worker" {{ tasks = 100000 }} }}\n'
    text = f"tfdeploy = 1\n{{model}}{devices}place {{{{ clones -> worker[{{range}}].cpu[0] }}}}\n"
    reading = grammar.read("spec.tfdeploy", text=text.format(model=MODEL, range="0..99999"))
    (rule,) = reading.spec.place.rules
    assert rule.target.patterns[0].tasks == tuple(range(100_000))
    assert codes(text.format(model=MODEL, range="0..100000")) == ["TFD305"]


def test_a_layer_is_repeated_once_at_least_and_ten_thousand_times_at_most() -> None:
    """Counts at the bounds are taken, and those beyond them are not."""
    text = f"tfdeploy = 1\n{MODEL.replace('Dense(1)', 'repeat(COUNT, Dense(4))')}"
    assert {count: codes(text.replace("COUNT", str(count))) for count in (0, 1, 10_000, 10_001)} == {
        0: ["TFD305"],
        1: [],
        10_000: [],
        10_001: ["TFD305"],
    }
