"""`tfdeploy explain`, and the pages that it prints: their examples do what they say."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import tfdeploy
from dsl.codes import CODES, Code
from tests.cli.conftest import Command
from tests.cli.pages import Example, example, sections
from tfdeploy.cli.commands.explain import page
from tfdeploy.cli.group import load

PROSE = {"TFD527", "TFD582", "TFD584", "TFD715", "TFD731", "TFD733", "TFD747", "TFD754", "TFD756", "TFD782"}
PROSE |= {f"TFD76{digit}" for digit in (0, 2, 3, 4, 5, 6, 7, 8)}
PROSE |= {"TFD749", "TFD788", *(f"TFD77{digit}" for digit in (0, 1, 2, 3, 8))}
"""Codes that no short example brings about: of a verification, of TensorFlow, of two runs, of a disk, of
several processes, and of packages that are not installed.
"""

EXAMPLES = [code for code in CODES.values() if code.stage != "tool" and code.code not in PROSE]
LIGHT = [code for code in EXAMPLES if code.stage == "check"]
HEAVY = [code for code in EXAMPLES if code.stage != "check"]


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.code)
def test_every_code_has_a_page_of_the_same_build(code: Code) -> None:
    """A page has the code and its name as title, and says what is wrong, what is right, and why."""
    parts = sections(code)
    shown = ["Wrong", "Right", "Why"] if code in EXAMPLES else ["Why"]
    assert list(parts) == [f"{code.code}: {code.name}", *shown]
    assert all(text.strip() for text in parts.values())


def test_every_page_has_a_code() -> None:
    """No page is left over from a code that is gone."""
    pages = Path(tfdeploy.__file__).with_name("pages")
    assert {path.stem for path in pages.iterdir()} == set(CODES)


def test_table_of_codes_is_sorted_and_each_name_stands_once() -> None:
    """Codes are in order, in the form TFDxxx, and no two have one name."""
    codes = list(CODES)
    assert codes == sorted(codes)
    assert all(re.fullmatch(r"TFD[1-9]\d\d", code) for code in codes)
    assert len({code.name for code in CODES.values()}) == len(codes)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.name) for code in CODES.values())


@pytest.mark.parametrize("code", LIGHT, ids=lambda code: code.code)
@pytest.mark.parametrize("section", ["Wrong", "Right"])
def test_wrong_example_yields_exactly_its_code_and_right_one_nothing(
    code: Code, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checking the wrong example of a page finds that code, once, and nothing else."""
    monkeypatch.chdir(tmp_path)
    assert example(code, section).run(tmp_path) == ([code.code] if section == "Wrong" else [])


@pytest.mark.slow
@pytest.mark.usefixtures("forked_tasks")
@pytest.mark.family(every=16)
@pytest.mark.parametrize("code", HEAVY, ids=lambda code: code.code)
@pytest.mark.parametrize("section", ["Wrong", "Right"])
def test_examples_of_later_stages(
    code: Code, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling or running the wrong one reports its code, once; `check` finds this or nothing."""
    monkeypatch.chdir(tmp_path)
    found = example(code, section)
    assert found.run(tmp_path) == ([code.code] if section == "Wrong" else [])
    if section == "Wrong":
        checked = Example({}, (f"tfdeploy check --allow-python {' '.join(found.specs)}",)).run(tmp_path)
        assert checked in ([], [code.code])


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.code)
def test_right_example_is_in_the_one_style(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specs of a right example are as `fmt` would write them."""
    monkeypatch.chdir(tmp_path)
    right = example(code, "Right")
    files = {name: right.files[name] for name in right.specs}
    Example(files, ()).run(tmp_path)
    done = CliRunner().invoke(load("fmt"), ["--check", *files], standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, "")


@pytest.mark.parametrize("wanted", ["TFD402", "tfd402", "no-such-device", "No_Such_Device", "error[TFD402]"])
def test_explain_by_code_or_name(command: Command, wanted: str) -> None:
    """A page is found by code and by name, as they are shown or typed."""
    done = command("explain", wanted)
    assert (done.code, done.out, done.err) == (0, page(CODES["TFD402"]), "")


def test_explain_without_a_code_lists_them(command: Command) -> None:
    """Without an argument there is a line for each code."""
    lines = command("explain").out.splitlines()
    assert len(lines) == len(CODES)
    assert lines[0] == "TFD101  unexpected-character: a character that has no meaning in a spec"


def test_shell_of_the_examples_is_there() -> None:
    """The commands that make odd files in the examples are those of every system."""
    assert all(shutil.which(name) for name in ("sh", "head", "tr", "printf"))
