"""What strangers have written cannot steer the terminal on which it is shown."""

import json
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result
from rich.control import Control
from rich.table import Table
from rich.text import Text

from dsl.formats.cells import printable
from tests.cli.conftest import GOOD, Command
from tests.placement_maps import make_map
from tfdeploy.cli.group import load
from tfdeploy.runtime.show.console import TameConsole

TRAP = "\x1b]0;owned\x07\x1b[2J\u202e"


def invoke(arguments: list[str]) -> Result:
    """Run a command in this process, which ends as it should."""
    name, *rest = arguments
    done = CliRunner().invoke(load(name), rest, standalone_mode=False)
    assert done.exception is None, done.exception
    return done


def test_pictures_stand_for_what_steers() -> None:
    """Newlines and tabs stay, and so do colours where they are wanted; all else can be seen."""
    assert printable("a\n\tb é") == "a\n\tb é"
    assert printable("\x1b[1;31mred\x1b[0m\r\x1b[2Jgone\x9b", color=True) == "\x1b[1;31mred\x1b[0m␍␛[2Jgone�"
    assert printable("\x1b[31mred\x1b[0m") == "␛[31mred␛[0m"


@pytest.mark.parametrize("color", ["never", "always"])
def test_maps_of_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, color: str) -> None:
    """Names of ops, devices, rules and files of a map, in every view of it."""
    monkeypatch.chdir(tmp_path)
    escaped = json.dumps(TRAP)[1:-1]
    text = make_map().to_json()
    text = text.replace("conv1", f"conv1{escaped}").replace("train.tfdeploy", f"train{escaped}.tfdeploy")
    text = text.replace("clones -> gpu", f"clones{escaped} -> gpu")
    Path("stranger.json").write_text(text)
    Path("own.json").write_text(make_map(1).to_json())
    for arguments in (
        ["plan", "stranger.json"],
        ["plan", "stranger.json", "--ops"],
        ["diff", "own.json", "stranger.json"],
    ):
        done = invoke([*arguments, "--color", color])
        assert "owned" in done.stdout, arguments
        _require_tame(done.output)


def test_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be called anything: in what is said of sound ones, of broken ones, and of wrong usage."""
    monkeypatch.chdir(tmp_path)
    good, bad = f"good{TRAP}.tfdeploy", f"bad{TRAP}.tfdeploy"
    Path(good).write_text(GOOD)
    Path(bad).write_text(GOOD.replace("Dense", "Dence"))
    Path(f"{TRAP}.json").write_text("{}")
    for arguments in (
        ["check", good, bad],
        ["fmt", "--check", bad],
        ["plan", f"{TRAP}.json"],
        ["plan", f"no{TRAP}"],
    ):
        _require_tame(invoke(arguments).output)


@pytest.mark.parametrize("style", ["human", "concise", "github", "json", "sarif"])
def test_every_format_of_messages(command: Command, style: str) -> None:
    """Names and lines of the source are quoted, and JSON stays what it is."""
    trap = f"{TRAP}\x9b\u2028\u200b\x08"
    name = f"a{trap.replace('/', '')}.tfdeploy"
    command.write(name, GOOD.replace('"m"', f'"m{trap}"'))
    done = command("check", name, "--format", style)
    assert done.code == 1
    _require_tame(done.out + done.err)
    if style == "json":
        assert json.loads(done.out)["diagnostics"][0]["path"] == name
    if style == "sarif":
        assert quote(name) in json.dumps(json.loads(done.out))


def test_what_rich_prints() -> None:
    """Text of any renderable is tamed, and what rich itself says to the terminal is not."""
    file = StringIO()
    console = TameConsole(file=file, force_terminal=True, width=60, markup=False, color_system="standard")
    table = Table(TRAP)
    table.add_row(Text(TRAP, style="red"))
    console.print(TRAP, table)
    console.control(Control.home())
    said = file.getvalue()
    assert said.endswith("\x1b[H")
    assert "\x1b[31m" in said
    _require_tame(said.removesuffix("\x1b[H"))


def test_pages_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files for browsers, which somebody may look at in a terminal."""
    monkeypatch.chdir(tmp_path)
    escaped = json.dumps(TRAP)[1:-1]
    Path("stranger.json").write_text(make_map().to_json().replace("conv1", f"conv1{escaped}"))
    for run in (f"run{TRAP}", "other"):
        Path(run).mkdir()
        line = '{"step": 1, "split": "train", "loss": 1.0, "data_loss": 1.0}\n'
        (Path(run) / "history.jsonl").write_text(line)
    for arguments in (
        ["plan", "stranger.json", "--html", "page.html"],
        ["plot", f"run{TRAP}", "other", "--out", "curves.svg"],
    ):
        invoke(arguments)
        text = Path(arguments[-1]).read_text()
        assert "owned" in text
        _require_tame(text)


def _require_tame(text: str) -> None:
    """Fail for anything that steers a terminal and is no colour of the tool's."""
    assert printable(text, color=True) == text
