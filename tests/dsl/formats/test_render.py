"""Diagnostics as text: what people see, and what programs read."""

from __future__ import annotations

import json

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


def test_error_with_label_note_and_help() -> None:
    """Both places are shown with their lines, then facts, then what to do, then how many errors there are."""
    assert render([NO_GPU]) == (
        "error[TFD402]: `gpu[7]` does not exist\n"
        "  --> train.tfdeploy:16:20\n"
        "   |\n"
        "10 |   gpu = 4\n"
        "   |         - only 4 GPUs are declared (0..3)\n"
        "...\n"
        "16 |   clones -> gpu[0..7]\n"
        "   |                    ^ index 7\n"
        "   |\n"
        "   = note: ranges include both ends\n"
        "   = help: use `gpu[0..3]`, or raise `gpu` to 8\n"
        "\n"
        "1 error\n"
        "`tfdeploy explain TFD402` says more about it\n"
    )


def test_several_markers_in_one_line() -> None:
    """The last text stands beside its marker, the others hang below theirs."""
    source = Source("a.tfdeploy", "alpha = beta + gamma\n")
    diagnostic = error(
        "these do not go together",
        at(source, "beta"),
        "a length",
        labels=(Label(at(source, "gamma"), "a time"), Label(at(source, "alpha"), "needed here")),
    )
    assert shown(diagnostic) == (
        "error[TFD402]: these do not go together\n"
        " --> a.tfdeploy:1:9\n"
        "  |\n"
        "1 | alpha = beta + gamma\n"
        "  | -----   ^^^^   ----- a time\n"
        "  | |       |\n"
        "  | |       a length\n"
        "  | needed here\n"
    )


def test_marker_within_a_marker() -> None:
    """The primary marker covers the one it lies in, whose text hangs below."""
    source = Source("a.tfdeploy", "place { clones -> gpu[7] }")
    diagnostic = error(
        "no", at(source, "7"), "index", labels=(Label(at(source, "clones -> gpu[7]"), "rule"),)
    )
    assert shown(diagnostic) == (
        "error[TFD402]: no\n"
        " --> a.tfdeploy:1:23\n"
        "  |\n"
        "1 | place { clones -> gpu[7] }\n"
        "  |         --------------^-\n"
        "  |         |             |\n"
        "  |         |             index\n"
        "  |         rule\n"
    )


def test_tabs_wide_and_combining_characters_and_controls() -> None:
    """Markers stand below what they mark whatever its width, and no control character is let through."""
    source = Source("w.tfdeploy", '\tname = "日本e\u0301\x1b[31m" + x')
    diagnostic = error(
        "a \x1b[31m name",
        at(source, "x"),
        "this",
        labels=(Label(at(source, '"日本e\u0301\x1b[31m"'), "wide"),),
    )
    assert shown(diagnostic) == (
        "error[TFD402]: a ␛[31m name\n"
        " --> w.tfdeploy:1:23\n"
        "  |\n"
        '1 |     name = "日本e\u0301␛[31m" + x\n'
        "  |            ------------   ^ this\n"
        "  |            |\n"
        "  |            wide\n"
    )


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


def test_short_stretch_of_lines_is_shown_whole() -> None:
    """A part of a few lines has a bar beside it."""
    source = Source("m.tfdeploy", 'model "a" {\n  x = input(1)\n}\n')
    assert shown(error("two", Span(source, 0, len(source.text) - 1), "again")) == (
        "error[TFD402]: two\n"
        " --> m.tfdeploy:1:1\n"
        "  |\n"
        '1 | / model "a" {\n'
        "2 | |   x = input(1)\n"
        "3 | | }\n"
        "  | |_^ again\n"
    )


def test_long_stretch_of_lines_shows_its_ends() -> None:
    """Of a longer part the first and the last line are shown, the last newline not counted."""
    source = Source("m.tfdeploy", "data {\n\n\n\n\n\n\n\n  a = 1\n}\n")
    assert shown(error("two", Span(source, 0, len(source.text)), "again")) == (
        "error[TFD402]: two\n  --> m.tfdeploy:1:1\n   |\n 1 | / data {\n...  |\n10 | | }\n   | |_^ again\n"
    )


def test_stretches_that_meet_have_bars_of_their_own() -> None:
    """A part that starts within a line gets a row for its start; one inside another a second bar."""
    source = Source("m.tfdeploy", "model {\n  x = f(1,\n    2)\n}\nmodel {\n}\n")
    first = Label(Span(source, 0, source.text.index("}") + 1), "first here")
    second = Span(source, source.text.rindex("model"), len(source.text) - 1)
    diagnostic = error(
        "defined twice", second, "again", labels=(first, Label(at(source, "f(1,\n    2)"), "in it"))
    )
    assert shown(diagnostic) == (
        "error[TFD402]: defined twice\n"
        " --> m.tfdeploy:5:1\n"
        "  |\n"
        "1 | /  model {\n"
        "2 | |    x = f(1,\n"
        "  | | _______-\n"
        "3 | ||     2)\n"
        "  | ||______- in it\n"
        "4 | |  }\n"
        "  | |__- first here\n"
        "5 | /  model {\n"
        "6 | |  }\n"
        "  | |__^ again\n"
    )


def test_diagnostic_without_a_place() -> None:
    """Without a span there is a message with its remarks; lines after the first are aligned."""
    assert shown(error("the tool failed", notes=("one\ntwo",), help="try again")) == (
        "error[TFD402]: the tool failed\n  = note: one\n          two\n  = help: try again\n"
    )


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


def test_value_of_the_command_line_and_a_second_source() -> None:
    """An error in a `--set` value points into the command line, and shows the file as a second source."""
    value = Source("--set clones.count", "many")
    spec = Source("a.tfdeploy", "clones {\n  count = 2\n}\n")
    diagnostic = error(
        "`many` is not an integer", at(value, "many"), labels=(Label(at(spec, "2"), "replaced"),)
    )
    assert shown(diagnostic) == (
        "error[TFD402]: `many` is not an integer\n"
        " --> --set clones.count:1:1\n"
        "  |\n"
        "1 | many\n"
        "  | ^^^^\n"
        " ::: a.tfdeploy:2:11\n"
        "  |\n"
        "2 |   count = 2\n"
        "  |           - replaced\n"
    )


def test_colour_marks_severity_frame_and_labels() -> None:
    """Colour is plain escape sequences, and without them the text is the same."""
    source = Source("a.tfdeploy", "x = 1\n")
    diagnostic = Diagnostic("TFD601", "unused `x`", at(source, "x"), "here", Severity.WARNING)
    painted = render([diagnostic], color=True)
    bold, yellow, blue, off = "\x1b[1m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[0m"
    assert painted == (
        f"{yellow}warning[TFD601]{off}{bold}: unused `x`{off}\n"
        f"{blue} -->{off} a.tfdeploy:1:1\n"
        f"{blue}  |{off}\n"
        f"{blue}1 |{off} x = 1\n"
        f"{blue}  |{off} {yellow}^{off} {yellow}here{off}\n"
        "\n1 warning\n`tfdeploy explain TFD601` says more about it\n"
    )
    plain = painted
    for code in (bold, yellow, blue, off):
        plain = plain.replace(code, "")
    assert plain == render([diagnostic])


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
