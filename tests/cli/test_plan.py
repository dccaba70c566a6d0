"""`plan` as a process: views of a spec, and of a map in a file."""

import json
import shutil
import sys
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from tests.cli.conftest import Command
from tests.placement_maps import make_kinds, make_map

ITSELF = ("-W", "ignore::ResourceWarning", "-m", "tfdeploy")
"""The command as a process of its own, which does not wait for the program that shows the page."""

SPEC = """\
tfdeploy = 1

model "small" {
  image = input(float32, [8])
  digit = input(int32, [])
  logits = image -> Dense(16, activation = relu, name = "hidden") -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices { gpu = 2, cpu = 1 }
clones { batch = 4 }

place {
  clones -> gpu[*]
  variables -> cpu[0]
  variables("logits/*") -> gpu[1]
}

update { optimizer = Momentum(0.1, momentum = 0.9) }
"""


def test_all_views_of_a_spec_at_once(command: Command) -> None:
    """One call writes the page and the graph, and prints the map as JSON with what a step needs and did."""
    command.write("small.tfdeploy", SPEC)
    views = ("--html", "map.html", "--dot", "map.dot", "--json", "--run-one-step", "--emulate")
    done = command("plan", "small.tfdeploy", *views)
    sizes = {name: len(command.read(name).encode()) for name in ("map.html", "map.dot")}
    assert done.code == 0
    assert done.err == "".join(f"{name}: written, {size:,} bytes\n" for name, size in sizes.items())
    found: dict[str, Any] = json.loads(done.out)
    devices = {each["ref"]: each for each in found["devices"]}
    assert list(devices) == ["cpu[0]", "gpu[0]", "gpu[1]"]
    assert devices["gpu[1]"]["variable_bytes"] == 4 * (16 * 10 + 10)
    assert all(each["memory_bytes"] > 0 for each in found["devices"])
    assert found["misplaced"] == []
    ran = {op["name"]: op["assigned"] for op in found["ops"] if op["assigned"] is not None}
    assert (ran["clone_1/hidden/MatMul"], ran["logits/kernel"]) == ("gpu[1]", "gpu[1]")
    assert 'variables(\\"logits/*\\") -\\u003e gpu[1]' in command.read("map.html")
    assert command.read("map.dot").startswith("digraph placement {\n")


def test_a_spec_in_the_terminal(command: Command) -> None:
    """The map is printed in 80 columns; what `expect` asks for and is not met is shown, with exit code 1."""
    command.write("small.tfdeploy", f'{SPEC}expect {{ ops(gpu[0], "clone_0/hidden/*") == 0 }}\n')
    done = command("plan", "small.tfdeploy", env={"COLUMNS": None})
    assert done.code == 1
    assert done.err.startswith("error[TFD534]")
    assert "--> small.tfdeploy:20:10\n" in done.err
    lines = done.out.splitlines()
    assert lines[0] == "small.tfdeploy: sync, in_graph, add_n, mean"
    assert lines[2] == "clones 0..1 on gpu[0..1], 4 examples each"
    assert [line.split()[0] for line in lines[4:9]] == ["device", "cpu[0]", "gpu[0]", "gpu[1]", "all"]
    heads = [line.split() for line in lines if line.startswith("scope")]
    assert heads == [["scope", "cpu[0]", "gpu[0]", "gpu[1]"]]
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.out


@pytest.fixture
def map_file(command: Command) -> str:
    """A placement map in a file, whose spec is not there."""
    return str(command.write("placement.json", make_map(2).to_json()))


def test_a_map_from_a_file(command: Command, map_file: str) -> None:
    """A map in a file, or in a directory, is shown without starting TensorFlow."""
    program = ("-X", "importtime", "-m", "tfdeploy")
    done = command("plan", map_file, "--filter", "clone_1", "--depth", "1", program=program)
    assert done.code == 0
    assert done.out.splitlines()[-4:] == [
        "clone_1/       2       7",
        "all            2       7",
        "none of these on gpu[0]",
        "depth 1 of 3; --depth N shows more, --ops every op",
    ]
    assert "tensorflow" not in done.err
    assert command("plan", ".", "--filter", "clone_1", "--depth", "1").out == done.out


def test_a_folder_without_a_map(command: Command) -> None:
    """The specs in it are named, of which one may have been meant."""
    command.write("runs/a/spec.tfdeploy", SPEC)
    for words in (["plan"], ["why", "hidden/kernel"], ["evaluate"]):
        done = command(*words[:1], "runs/a", *words[1:])
        assert done.code == 2
        assert done.err.startswith(
            "error[TFD191]: `runs/a` cannot be read: is a directory\n"
            "  = help: name a spec in it: `runs/a/spec.tfdeploy`\n"
        )


def test_colour_is_there_where_it_is_asked_for(command: Command, map_file: str) -> None:
    """Also if no terminal shows it."""
    assert "\x1b[1mdevice" in command("plan", map_file, "--color", "always").out


@pytest.mark.skipif(sys.platform != "linux", reason="other systems find their browsers in other ways")
def test_the_page_is_opened(command: Command, map_file: str) -> None:
    """`--open` hands the page to the browser; without one, the page is written and that is said."""
    browser = command.directory / "bin" / "xdg-open"
    browser.parent.mkdir()
    browser.write_text(f'#!{shutil.which("sh")}\nprintf %s "$1" > opened\n')
    browser.chmod(0o755)
    view = ("plan", map_file, "--html", "map.html", "--open")
    done = command(*view, program=ITSELF, env={"BROWSER": str(browser)})
    assert (done.code, done.out) == (0, "")
    opened = command.directory / "opened"
    assert opened.read_text() == (command.directory / "map.html").as_uri()
    opened.unlink()
    # The opener of a desktop is there, but there is no desktop.
    nowhere = {"PATH": str(browser.parent), "BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    done = command(*view, program=ITSELF, env=nowhere)
    assert done.code == 2
    assert not opened.exists()
    assert "Error: no program opens pages here; map.html is written and can be opened by hand\n" in done.err


def test_what_cannot_be_done_with_a_map_in_a_file(
    command: Command, map_file: str, golden: Callable[[str, str], None]
) -> None:
    """It is said in a line, with exit code 2."""
    assert map_file
    arguments = (
        *("--set clones.count=4", "--run-one-step", "--emulate", "--profile a.json", "--trace x.json"),
        *("--measured x.json", "--dot x.dot", "--only-misplaced", "--html nowhere/x.html", "--html ."),
        *("--html - --json", "--html x --dot ./x", "--depth 0", "--open", "--open --html -"),
    )
    golden("cli/plan_of_a_map.txt", command.session(*(f"plan placement.json {each}" for each in arguments)))


def test_files_that_cannot_be_read(command: Command, golden: Callable[[str, str], None]) -> None:
    """They are no traces, no maps, of a format to come, or not there; and specs may have errors."""
    traces = {"opless": '{"traceEvents": []}', "empty": "{}", "cut": "["}
    maps = {
        "cut": "{",
        "list": "[]",
        "zero": "\x00",
        "new": evolve(make_map(1), format_version="3.0").to_json(),
    }
    for name, text in traces.items():
        command.write(f"{name}.trace", text)
    for name, text in maps.items():
        command.write(f"{name}.json", text)
    command.write("small.tfdeploy", SPEC.replace("gpu[1]", "gpu[7]"))
    text = command.session(
        *(f"plan good.tfdeploy --measured {name}.trace" for name in traces),
        *(f"plan {name}.json" for name in maps),
        "plan nowhere.tfdeploy",
        "plan nowhere.json",
        "plan small.tfdeploy",
    )
    golden("cli/plan_of_bad_files.txt", text)


def test_files_of_others_are_replaced_by_force_alone(command: Command, map_file: str) -> None:
    """A page that the command has written may be written again; the map is not replaced in any case."""
    view = ("plan", map_file, "--html")
    assert command(*view, "map.html").code == 0
    page = command.read("map.html")
    assert command(*view, "map.html").code == 0
    command.write("mine.html", "mine")
    refused = command(*view, "mine.html")
    assert (refused.code, "TFD753" in refused.err, command.read("mine.html")) == (2, True, "mine")
    assert command(*view, "mine.html", "--force").code == 0
    assert command.read("mine.html") == page
    for read in (map_file, command.write("own.tfdeploy", SPEC)):
        own = command("plan", str(read), "--html", str(read), "--force")
        assert (own.code, "TFD752" in own.err) == (2, True)
    assert command(*view, "-").out == page


def test_what_is_written_and_what_is_printed(command: Command, map_file: str) -> None:
    """A page takes the place of the text, and JSON is printed beside it."""
    page = command("plan", map_file, "--html", "map.html")
    size = len(command.read("map.html").encode())
    assert (page.out, page.err) == ("", f"map.html: written, {size:,} bytes\n")
    both = command("plan", map_file, "--html", "map.html", "--json")
    assert both.out == command.read("placement.json")


def test_a_map_by_kinds(command: Command) -> None:
    """It is shown with all clones, printed as it is, and with `--every-clone` as the records of each."""
    placement = make_kinds()
    command.write("many.json", placement.to_json())
    shown = command("plan", "many.json").out
    assert "clones 0..511 on worker[0..63].gpu[0..7], 4 examples each\n" in shown
    assert "clone_0..511/" in shown
    assert command("plan", "many.json", "--json").out == placement.to_json()
    assert command("plan", "many.json", "--json", "--every-clone").out == placement.expanded().to_json()
    assert "clone_511/" in command("plan", "many.json", "--every-clone").out
    chosen = command("plan", "many.json", "--ops", "--filter", "clone_9/*").out.splitlines()
    assert [line.split()[2] for line in chosen] == ["clone_9/fc1/kernel/read", "clone_9/fc1/MatMul"]
    assert command("diff", "many.json", "many.json").code == 0
    command.write("whole.json", placement.expanded().to_json())
    assert command("diff", "many.json", "whole.json").code == 0
    assert command("plan", "many.json", "--html", "many.html").code == 0


def test_why_an_op_is_where_it_is(command: Command, golden: Callable[[str, str], None]) -> None:
    """The deciding rule and the one that it beat; a name that nothing bears; and a spec with an error."""
    command.write("small.tfdeploy", SPEC)
    wrong = SPEC.replace("momentum = 0.9", "momentun = 0.9")
    command.write("wrong.tfdeploy", wrong)
    lines = ("small.tfdeploy logits/kernel", "small.tfdeploy logit/kernel", "wrong.tfdeploy logits/kernel")
    golden("cli/why.txt", command.session(*(f"why {each}" for each in lines)))
