"""Diagnostics as text: what people see, and what programs read."""

import json
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.diagnostics import Diagnostic, Edit, Fix, Label, Severity
from dsl.formats.render import render
from dsl.source import Source, Span
from tests.dsl.formats.faults import ENDS, NO_GPU, anywhere, at, error, texts


def shown(*diagnostics: Diagnostic) -> str:
    """Return the human format without its summary, ready to be compared with a block of text."""
    return render(diagnostics).rpartition("\n\n")[0] + "\n"


def marked(text: str, *places: str, said: Sequence[str] = ("this", "that", "those")) -> Diagnostic:
    """Return an error at the first of some places of a text, with labels at the others."""
    source = Source("a.tfdeploy", text)
    (first, *more), (word, *words) = [at(source, each) for each in places], said
    labels = [Label(span, each) for span, each in zip(more, words, strict=False)]
    return error("a message", first, word, labels=tuple(labels))


MODELS = "model {\n  x = f(1,\n    2)\n}\nmodel {\n}\n"
VALUE, SPEC = Source("--set clones.count", "many"), Source("a.tfdeploy", "clones {\n  count = 2\n}\n")
SHOWN = {
    "all_parts": NO_GPU,
    "several_markers": marked("alpha = beta + gamma\n", "beta", "gamma", "alpha"),
    "marker_in_a_marker": marked("place { clones -> gpu[7] }", "7", "clones -> gpu[7]"),
    "wide_signs": marked('\tname = "日本e\u0301\x1b[31m" + x', "x", '"日本e\u0301\x1b[31m"'),
    "control_signs": error("a \x1b[31m name"),
    "short_stretch": marked('model "a" {\n  x = input(1)\n}\n', 'model "a" {\n  x = input(1)\n}'),
    "long_stretch": marked("data {\n\n\n\n\n\n\n\n  a = 1\n}\n", "data {\n\n\n\n\n\n\n\n  a = 1\n}\n"),
    "stretches_that_meet": marked(MODELS, "model {\n}", MODELS[: MODELS.index("}") + 1], "f(1,\n    2)"),
    "without_a_place": error("the tool failed", notes=("one\ntwo",), help="try again"),
    "two_sources": error("no integer", at(VALUE, "many"), labels=(Label(at(SPEC, "2"), "replaced"),)),
}


@pytest.mark.parametrize("name", SHOWN)
def test_places_are_marked(name: str, golden: Callable[[str, str], None]) -> None:
    """Markers are below what they mark, bars beside lines; no control character is let through."""
    golden(f"render/{name}.txt", render([SHOWN[name]]))


def test_long_line_is_cut_around_the_marker() -> None:
    """Of a line that is too long the part with the marker is shown."""
    source = Source("l.tfdeploy", f"x = [{', '.join(str(number) for number in range(200))}]")
    rows = shown(error("too long", at(source, "150"), "here")).splitlines()
    assert rows[3] == (
        "1 | ...8, 139, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, "
        "157, 158, 159, 160, 161, 16..."
    )
    assert rows[4] == "  | " + " " * 61 + "^^^ here"
    assert rows[3][rows[4].index("^") :].startswith("150")


def test_marker_longer_than_the_window_is_cut() -> None:
    """A marker that takes more than a window shows its start and is cut at the end of the window."""
    source = Source("l.tfdeploy", f"x = {'y' * 500}")
    rows = shown(error("long", at(source, "y" * 500), "name")).splitlines()
    assert rows[3] == f"1 | x = {'y' * 116}..."
    assert rows[4] == f"  |     {'^' * 116} name"


@pytest.mark.parametrize(
    ("text", "place", "line"), [("", "1:1", "1 |"), ("a {", "1:4", "1 | a {"), ("a {\n", "2:1", "2 |")]
)
def test_end_of_file(text: str, place: str, line: str) -> None:
    """The end of a text is a place that can be pointed at."""
    source = Source("e.tfdeploy", text)
    rows = shown(error("it ends here", Span(source, len(text), len(text)))).splitlines()
    assert rows[1] == f" --> e.tfdeploy:{place}"
    assert rows[3] == line
    assert rows[4].index("^") == 4 + int(place[2]) - 1


def test_colour_marks_severity_frame_and_labels(golden: Callable[[str, str], None]) -> None:
    """Colour is plain escape sequences, and without them the text is the same."""
    source = Source("a.tfdeploy", "x = 1\n")
    diagnostic = Diagnostic("TFD601", "unused `x`", at(source, "x"), "here", Severity.WARNING)
    painted = render([diagnostic], color=True)
    golden("render/colour.txt", painted.replace("\x1b", "ESC"))
    assert re.sub("\x1b" + r"\[[\d;]*m", "", painted) == render([diagnostic])


def test_summary_counts_all_and_shows_fifty() -> None:
    """At most fifty are shown; the summary counts all of them, and the fixes that are safe."""
    source = Source("a.tfdeploy", "x = 1\n")
    fix = Fix("remove it", (Edit(at(source, "x"), ""),), "safe")
    many = [error(f"error {number}") for number in range(60)]
    warning = Diagnostic("TFD601", "unused", severity=Severity.WARNING, fix=fix)
    text = render([warning, *many])
    assert text.endswith(
        "error[TFD402]: error 48\n\n"
        "60 errors, 1 warning (the first 50 are shown); `tfdeploy check --fix` mends 1\n"
        "`tfdeploy explain TFD402` says more\n"
    )
    assert text.count("error[TFD402]") == 49
    assert len(render(many, "concise").splitlines()) == 50
    assert json.loads(render(many, "json"))["error_count"] == 60


def test_nothing_to_say() -> None:
    """Without diagnostics the formats for people are empty and those for programs say so."""
    assert [render([], name) for name in ("human", "concise", "github")] == ["", "", ""]
    assert json.loads(render([], "json"))["valid"] is True
    assert json.loads(render([], "sarif"))["runs"][0]["results"] == []


def test_unknown_format_is_a_fault_of_the_caller() -> None:
    """A format that does not exist is not replaced by another."""
    with pytest.raises(ValueError, match="there is no format 'xml'"):
        render([], "xml")


@given(texts(), ENDS, st.booleans())
def test_any_spans_in_any_text_can_be_shown(text: str, ends: list[tuple[int, int]], color: bool) -> None:
    """No text and no set of spans makes rendering fail, and nothing it shows can steer a terminal."""
    human = render([anywhere(text, ends)], color=color)
    assert human.startswith("\x1b[1;31m" if color else "error[TFD402]: any\n --> any.tfdeploy:")
    assert human.count("main") == 1
    assert human.rpartition("\n\n")[0].count("more") == len(ends) - 1
    assert color or human.replace("\n", "").isprintable()


@given(st.text(alphabet="ab={} \t日é", min_size=1, max_size=60), st.data())
def test_marker_stands_below_what_it_marks(text: str, data: st.DataObject) -> None:
    """The marker starts where the text before the span ends and is as wide as the span, in cells."""
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    rows = shown(error("any", Span(Source("any.tfdeploy", text), start, end))).splitlines()

    def width(part: str) -> int:
        return sum({"\t": 4, "日": 2}.get(character, 1) for character in part)

    assert rows[4] == "  | " + " " * width(text[:start]) + "^" * width(text[start:end])


@pytest.mark.parametrize("filling", ["a", "é", "\u3042", "\t", "\u0301"])
def test_only_what_is_around_a_place_is_laid_out_of_a_long_line(filling: str) -> None:
    """A line of millions of characters is shown as the part around the place alone is, between dots."""
    near = f"{filling * 500}here{filling * 2000}"
    source, part = Source("a", filling * 1_000_000 + near), Source("a", filling * 500 + near)
    both = [
        shown(error("no", Span(each, at_, at_ + 4), "not this"))
        for each in (source, part)
        for at_ in [each.text.index("here")]
    ]
    rows = [[row for row in each.splitlines() if "here" in row or "^" in row] for each in both]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 2
    assert rows[0][0].startswith("1 | ...")
    assert rows[0][0].endswith("...")


def test_no_text_of_a_diagnostic_is_longer_than_a_path_can_be() -> None:
    """What quotes megabytes has their start and end, wherever it stands; a long path stays whole."""
    path, cell = "p" * 4096, "<" + "x" * 3_000_000 + ">"
    source = Source("a", "b")
    place = Span(source, 0, 1)
    found = Diagnostic("TFD706", cell, place, cell, Severity.ERROR, (Label(place, cell),), (cell, path), cell)
    given = [found.message, found.text, found.labels[0].text, found.notes[0], found.help or ""]
    assert {(each[0], each[-1], len(each) < 5100) for each in given} == {("<", ">", True)}
    assert found.notes[1] == path
