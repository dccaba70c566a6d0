"""Colours, values of options and written files, as every command handles them."""

import webbrowser
from pathlib import Path

import click
import pytest

from tfdeploy.cli.common import Common, colored
from tfdeploy.cli.files import map_file, require_distinct, write_page, write_text
from tfdeploy.cli.options import pairs


@pytest.mark.parametrize(
    ("wish", "variables", "on_terminal", "off_terminal"),
    [
        ("auto", {}, True, False),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {"NO_COLOR": "1"}, False, False),
        ("auto", {"NO_COLOR": ""}, True, False),
        ("auto", {"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ("always", {"NO_COLOR": "1"}, True, True),
        ("never", {"FORCE_COLOR": "1"}, False, False),
    ],
)
def test_when_output_is_coloured(
    monkeypatch: pytest.MonkeyPatch,
    wish: str,
    variables: dict[str, str],
    on_terminal: bool,
    off_terminal: bool,
) -> None:
    """What the command line says goes before the environment, and that before the terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    assert colored(wish, is_terminal=True) is on_terminal
    assert colored(wish, is_terminal=False) is off_terminal


def test_each_stream_has_colours_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are coloured if they go to a terminal, whatever becomes of the results."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert (Common().color_errors, Common().color_output) == (True, False)


def read_pairs(*values: str) -> tuple[tuple[str, str], ...]:
    """Return what `--set` makes of its values."""
    option = click.Option(["--set", "overrides"])
    return pairs(click.Context(click.Command("check")), option, values)


def test_values_of_set_are_pairs() -> None:
    """The first `=` ends the path, and the value is kept as it is written."""
    assert read_pairs("clones.count=4", " a.b = x=y ") == (("clones.count", "4"), ("a.b", " x=y "))
    assert read_pairs("a=") == (("a", ""),)
    assert read_pairs() == ()
    for wrong in ("a", "", "=4", " =4"):
        with pytest.raises(click.BadParameter, match="is not of the form PATH=VALUE") as caught:
            read_pairs("good=1", wrong)
        assert caught.value.param is not None
    with pytest.raises(click.UsageError, match="--set changes nothing of what init does"):
        pairs(click.Context(click.Command("x"), info_name="init"), click.Option(["--set"]), ("a=1",))


def test_two_results_need_two_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the names of a file, and standard output is one place."""
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("a.html")
    require_distinct(["-", "a.html", "b.html", "./-"])
    for results, named in (
        (["-", "a.html", "-"], "standard output"),
        (["a.html", "./a.html"], r"\./a\.html"),
        (["a.html", "link"], "link"),
    ):
        with pytest.raises(click.UsageError, match=f"^{named} can take only one of the results"):
            require_distinct(results)


def test_a_written_file_is_named_with_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, so that standard output has nothing but results."""
    monkeypatch.chdir(tmp_path)
    write_text("a.txt", "é" * 600)
    assert Path("a.txt").read_text(encoding="utf-8") == "é" * 600
    assert capsys.readouterr() == ("", "a.txt: written, 1,200 bytes\n")
    write_text("-", "é\n")
    assert capsys.readouterr() == ("é\n", "")
    assert not Path("-").exists()


def test_a_page_is_opened_if_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its whole path. If nothing opens it, that is said, and the page is there."""
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []

    def open_page(address: str) -> bool:
        opened.append(address)
        return len(opened) == 1

    monkeypatch.setattr(webbrowser, "open", open_page)
    write_page("a.html", "<p>", open_page=False)
    assert opened == []
    write_page("a.html", "<p>", open_page=True)
    assert opened == [(tmp_path / "a.html").as_uri()]
    with pytest.raises(click.ClickException, match=r"no program opens pages here; b\.html is written"):
        write_page("b.html", "<b>", open_page=True)
    assert Path("b.html").read_text() == "<b>"


def test_what_names_a_placement_map(tmp_path: Path) -> None:
    """A folder means the map in it, if there is one, a file of JSON is one, and all else is a spec."""
    assert map_file(str(tmp_path)) is None
    (tmp_path / "placement.json").touch()
    assert map_file(str(tmp_path)) == str(tmp_path / "placement.json")
    assert map_file("nowhere.json") == "nowhere.json"
    assert map_file("nowhere.tfdeploy") is None
    assert map_file("x" * 5000) is None
