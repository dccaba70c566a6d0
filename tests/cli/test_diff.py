"""`diff` as a process: maps in files, and specs."""

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Command
from tests.cli.test_plan import SPEC
from tests.placement_maps import make_map


@pytest.fixture
def maps(command: Command) -> None:
    """Maps of two and of four clones, in files."""
    command.write("two.json", make_map(2).to_json())
    command.write("four.json", make_map(4).to_json())
    command.write("run/placement.json", make_map(4).to_json())


@pytest.mark.usefixtures("maps")
def test_maps_in_files(command: Command) -> None:
    """Maps are compared without starting TensorFlow; 1 says that they differ, 0 that they do not."""
    program = ("-X", "importtime", "-m", "tfdeploy")
    done = command("diff", "two.json", "four.json", program=program)
    assert done.code == 1
    assert done.out.startswith("clones: 2 -> 4\n\n18 ops appeared\n  clone_2..3/  14  on gpu[2..3]\n")
    assert "tensorflow" not in done.err
    same = command("diff", "four.json", "run")
    assert (same.code, same.out, same.err) == (0, "no difference\n", "")


@pytest.mark.usefixtures("maps")
def test_as_json(command: Command) -> None:
    """`--json` prints the differences for programs; the exit code is the same."""
    done = command("diff", "two.json", "four.json", "--json")
    assert (done.code, done.err) == (1, "")
    found = json.loads(done.out)
    assert (found["different"], len(found["ops"])) == (True, 18)


@pytest.mark.usefixtures("maps")
def test_as_a_page(command: Command) -> None:
    """`--html` replaces its own page, but neither a map that it reads nor another file."""
    done = command("diff", "two.json", "four.json", "--html", "diff.html")
    page = command.read("diff.html")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"diff.html: written, {len(page.encode()):,} bytes\n"
    assert "<title>two.json and four.json</title>" in page
    assert command("diff", "two.json", "run", "--html", "diff.html").code == 1
    before = command.read("two.json")
    assert command("diff", "two.json", "four.json", "--html", "two.json", "--force").code == 2
    assert command.read("two.json") == before
    command.write("notes.html", "mine")
    assert command("diff", "two.json", "four.json", "--html", "notes.html").code == 2
    assert command.read("notes.html") == "mine"


def test_one_spec_under_two_settings(command: Command) -> None:
    """A spec is compared with itself under `--set-b`; `--set` holds for both."""
    command.write("small.tfdeploy", SPEC)
    settings = ("--set", "clones.batch=2", "--set-b", "clones.count=1")
    done = command("diff", "small.tfdeploy", *settings, "--json")
    assert (done.code, done.err) == (1, "")
    found = json.loads(done.out)
    assert (found["before"]["mode"]["clones"], found["after"]["mode"]["clones"]) == (2, 1)
    gone = {op["name"] for op in found["ops"] if op["after"] is None}
    assert "clone_1/hidden/MatMul" in gone
    assert not any(name.startswith("clone_0/hidden") for name in gone)
    assert found["variables"] == []
    assert all(each["before"]["memory_bytes"] for each in found["devices"])


@pytest.mark.usefixtures("maps")
def test_wrong_usage(command: Command, golden: Callable[[str, str], None]) -> None:
    """Wrong usage and missing files end with 2, which is not the code of a difference."""
    text = command.session(
        "diff two.json",
        "diff two.json four.json --set-b a=1",
        "diff two.json nowhere.json",
        "diff two.json nowhere.tfdeploy",
        "diff two.json four.json --set-a nothing",
        "diff two.json four.json --open",
    )
    golden("cli/diff.txt", text)
