"""`tfdeploy check`: messages, formats, fixes and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import GOOD

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Command

WRONG = """\
tfdeploy = 1

model "m" {
  x = input(float32, [4])
  y = x -> Dens(2)
  output = y
}
"""


def test_good_spec(command: Command) -> None:
    """A good spec is reported on standard output, with exit code 0 and nothing on standard error."""
    done = command("check", "good.tfdeploy")
    assert (done.code, done.out, done.err) == (0, "good.tfdeploy: no errors\n", "")


def test_wrong_spec_is_shown_with_its_line(command: Command) -> None:
    """An error is shown on standard error with line, marker and summary, and the exit code is 1."""
    command.write("wrong.tfdeploy", WRONG)
    done = command("check", "wrong.tfdeploy")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error[TFD404]: there is no layer `Dens`\n"
        " --> wrong.tfdeploy:5:12\n"
        "  |\n"
        "5 |   y = x -> Dens(2)\n"
        "  |            ^^^^ unknown layer\n"
        "  |\n"
        "  = note: there is a layer with a similar name: `Dense`\n"
        "\n"
        "1 error\n"
        "`tfdeploy explain TFD404` says more about it\n"
    )


def test_missing_file_ends_with_two(command: Command) -> None:
    """A file that is not there is a usage fault: exit code 2, and the good one beside it is still checked."""
    done = command("check", "good.tfdeploy", "nowhere.tfdeploy", "--format", "concise")
    assert done.code == 2
    assert done.err == "nowhere.tfdeploy: error[TFD190] there is no file `nowhere.tfdeploy`\n"


@pytest.mark.parametrize("style", ["json", "github", "sarif"])
def test_a_file_that_is_missing_or_no_text_is_named_in_every_format(command: Command, style: str) -> None:
    """Programs get its path in the field that they look at, though there is no place in it."""
    (command.directory / "strange.tfdeploy").write_bytes(b"\xff\xfe")
    done = command("check", "nowhere.tfdeploy", "strange.tfdeploy", "--format", style)
    for name in ("nowhere.tfdeploy", "strange.tfdeploy"):
        shown = {
            "json": lambda name=name: name in [each["path"] for each in json.loads(done.out)["diagnostics"]],
            "github": lambda name=name: f"::error file={name},title=TFD19" in done.err,
            "sarif": lambda name=name: f'"uri": "{name}"' in done.out,
        }
        assert shown[style](), (name, done)


def test_standard_input_is_a_spec(command: Command) -> None:
    """`-` reads it: errors are placed in it, and it is found to be good or no text like any other."""
    good = command("check", "-", stdin=command.read("good.tfdeploy"))
    assert (good.code, good.out, good.err) == (0, "<stdin>: no errors\n", "")
    bad = command("check", "-", "--format", "concise", stdin='tfdeploy = 1\nmodel "m" { x = inputt() }\n')
    assert bad.code == 1
    assert bad.err.startswith("<stdin>:2:17: error[TFD40")
    strange = command("check", "-", "--format", "concise", stdin=b"\xff")
    assert (strange.code, strange.err) == (2, "<stdin>: error[TFD192] `<stdin>` is not UTF-8 text\n")
    assert command("check", "-", "--fix", stdin="").code == 2
    shown = command("show", "-", "--set", "clones.batch=7", stdin=command.read("good.tfdeploy"))
    assert (shown.code, "batch = 7" in shown.out) == (0, True)


@pytest.mark.parametrize(
    ("content", "kind", "note", "advice"),
    [
        (
            "\ufefftfdeploy".encode("utf-16"),
            "UTF-16 text, not UTF-8",
            "byte 1 is the first that is not UTF-8",
            "-16",
        ),
        (b"a\0b\xff", "not text", "byte 2 is NUL, which no text has", "name a spec"),
        (b"caf\xe9 \0", "not UTF-8 text", "byte 4 is the first that is not UTF-8", "latin1"),
        (
            b"PK\x03\x04ab\xff",
            "an archive, such as a `.keras` or `.npz` file",
            "byte 7 is the first",
            "trained with",
        ),
        (b"\x89HDF\r\n\x1a\n\0", "an HDF5 file", "byte 1 is the first", "trained with"),
        (b"\x1f\x8b\x08\0", "a file that gzip packed", "byte 2 is the first", "gunzip"),
    ],
)
def test_file_that_is_no_text(command: Command, content: bytes, kind: str, note: str, advice: str) -> None:
    """A file that is no UTF-8 text is refused with exit code 2: what it is, which byte tells, what to do."""
    (command.directory / "odd.tfdeploy").write_bytes(content)
    done = command("check", "odd.tfdeploy")
    first, second, third, *_ = done.err.splitlines()
    assert done.code == 2
    assert first.startswith(f"error[TFD192]: `odd.tfdeploy` is {kind}")
    assert second.startswith(f"  = note: {note}")
    assert third.startswith("  = help: ")
    assert advice in third


ADDRESSES = {
    "train.directory=gs://b/x": "directory",
    "train.weights=s3://b/x.keras": "weights",
    'data.train=csv("http://h/*.csv", x = "x")': "path",
    'data.test=npz("hdfs://h/a.npz")': "path",
    'data.train=mnist("a.idx", "ftp://h/b.idx")': "labels",
    'data.train=images(path = "file:///a", size = [2, 2])': "path",
}


def test_addresses_are_no_paths(command: Command) -> None:
    """Wherever a path belongs, in specs and on the command line, and nothing is made by such a name."""
    for override, name in ADDRESSES.items():
        done = command("check", "good.tfdeploy", "--set", override)
        assert (done.code, "error[TFD308]" in done.err, f"`{name}`" in done.err) == (1, True, True), done
    layers = """\
tfdeploy = 1
model "m" {
  x = input(string, [])
  a = x -> StringLookup(vocabulary = "gs://b/words.txt") -> Embedding(4, 2)
  y = a -> Dense(2, weights = "gs://b/d.keras") -> Dense(2)
  output = y
}
train { weights { "*" -> "gs://b/m.keras" } }
"""
    command.write("layers.tfdeploy", layers)
    assert command("check", "layers.tfdeploy", "--format", "concise").err.count("TFD308") == 3
    before = sorted(command.directory.iterdir())
    for arguments in (("check", "gs://b/x.tfdeploy"), ("plan", "good.tfdeploy", "--html=gs://b/x.html")):
        done = command(*arguments)
        assert (done.code, "error[TFD308]" in done.err) == (2, True), done
    assert sorted(command.directory.iterdir()) == before


def test_all_specs_are_checked(command: Command) -> None:
    """Errors of several specs come out of one run, in the order of the command line."""
    command.write("a.tfdeploy", WRONG)
    command.write("b.tfdeploy", WRONG.replace("Dens(2)", "Dense(2, bias = 1)"))
    done = command("check", "b.tfdeploy", "good.tfdeploy", "a.tfdeploy", "--format", "concise")
    assert done.code == 1
    assert [line.partition(": ")[0] for line in done.err.splitlines()] == [
        "b.tfdeploy:5:21",
        "a.tfdeploy:5:12",
    ]


def test_json_goes_to_standard_output(command: Command) -> None:
    """The JSON envelope is a result: standard output, also for a good spec."""
    command.write("wrong.tfdeploy", WRONG)
    wrong = command("check", "wrong.tfdeploy", "--format", "json")
    good = command("check", "good.tfdeploy", "--format", "json")
    assert (wrong.code, wrong.err, good.code, good.err) == (1, "", 0, "")
    found = json.loads(wrong.out)
    assert (found["valid"], found["error_count"], found["diagnostics"][0]["code"]) == (False, 1, "TFD404")
    assert json.loads(good.out) == {
        "format_version": "1.0",
        "valid": True,
        "error_count": 0,
        "warning_count": 0,
        "diagnostics": [],
    }


def test_other_formats(command: Command) -> None:
    """Workflow commands go to standard error, a SARIF log to standard output."""
    command.write("wrong.tfdeploy", WRONG)
    github = command("check", "wrong.tfdeploy", "--format", "github")
    sarif = command("check", "wrong.tfdeploy", "--format", "sarif")
    assert (github.code, github.out, sarif.code, sarif.err) == (1, "", 1, "")
    assert github.err.startswith(
        "::error file=wrong.tfdeploy,line=5,endLine=5,col=12,endColumn=16,title=TFD404 "
    )
    assert json.loads(sarif.out)["runs"][0]["results"][0]["ruleId"] == "TFD404"


def test_override_is_applied_and_its_error_points_into_the_command_line(command: Command) -> None:
    """`--set` changes what is checked, and an error in its value is shown there."""
    done = command("check", "good.tfdeploy", "--set", "clones.count=many", "--format", "concise")
    assert done.code == 1
    assert done.err == "--set:1:14: error[TFD401] nothing is called `many` here\n"


def test_python_needs_leave(command: Command, replacing_good: Callable[[str, str], str]) -> None:
    """`python(...)` is an error without `--allow-python` and none with it, and is not loaded by `check`."""
    command.write("code.tfdeploy", replacing_good("Dense(2)", 'python("nowhere:layer")'))
    assert command("check", "code.tfdeploy", "--format", "concise").code == 1
    assert command("check", "code.tfdeploy", "--allow-python").code == 0


def test_safe_fix_is_applied(command: Command, replacing_good: Callable[[str, str], str]) -> None:
    """`--fix` writes what is safe, says so, keeps permissions and links, and leaves a spec without faults."""
    path = command.write("old.tfdeploy", replacing_good("tfdeploy = 1\n\n", ""))
    path.chmod(0o640)
    (command.directory / "link.tfdeploy").symlink_to("old.tfdeploy")
    before = command("check", "link.tfdeploy", "--format", "concise")
    assert (before.code, before.err[:40]) == (0, "link.tfdeploy:1:1: warning[TFD206] the s")
    done = command("check", "link.tfdeploy", "--fix")
    assert (done.code, done.out, done.err) == (0, "link.tfdeploy: 1 fixed\nlink.tfdeploy: no errors\n", "")
    assert command.read("old.tfdeploy").startswith("tfdeploy = 1\n")
    assert (command.directory / "link.tfdeploy").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in command.directory.iterdir()) == [
        "good.tfdeploy",
        "link.tfdeploy",
        "old.tfdeploy",
    ]


def test_fix_keeps_line_ends_and_what_it_cannot_mend(command: Command) -> None:
    """Windows line ends survive a fix, and errors without a safe fix are still reported."""
    command.write("old.tfdeploy", WRONG.replace("tfdeploy = 1\n\n", "").replace("\n", "\r\n"))
    done = command("check", "old.tfdeploy", "--fix", "--format", "concise")
    assert done.code == 1
    assert "error[TFD404]" in done.err
    text = command.read("old.tfdeploy")
    assert text.startswith("tfdeploy = 1")
    assert text.endswith("  y = x -> Dens(2)\r\n  output = y\r\n}\r\n")


def test_fix_that_needs_two_rounds(command: Command) -> None:
    """A line with two faults, of which one is told at a time, is right after a single `--fix`."""
    text = WRONG.replace("x -> Dens(2)", "x => Dense(2) -> -> Dense(2)")
    command.write("odd.tfdeploy", text)
    assert command("check", "odd.tfdeploy").err.count("error[") == 1
    done = command("check", "odd.tfdeploy", "--fix")
    said = "odd.tfdeploy: 1 fixed\n" * 2 + "odd.tfdeploy: no errors\n"
    assert (done.code, done.out, done.err) == (0, said, "")
    assert command.read("odd.tfdeploy") == WRONG.replace("Dens(2)", "Dense(2) -> Dense(2)")


def test_without_fix_nothing_is_written(command: Command, replacing_good: Callable[[str, str], str]) -> None:
    """`check` alone leaves every byte as it is."""
    text = replacing_good("tfdeploy = 1\n\n", "")
    command.write("old.tfdeploy", text)
    command("check", "old.tfdeploy")
    assert command.read("old.tfdeploy") == text


@pytest.mark.parametrize("writer", [("check", "--fix"), ("fmt",)], ids=["fix", "fmt"])
def test_file_that_cannot_be_written(command: Command, writer: tuple[str, ...]) -> None:
    """Where a file cannot be written it stays whole, and the command names it and ends with 2."""
    text = GOOD.replace("tfdeploy = 1\n\n", "").replace("  ", "    ")
    command.write("old.tfdeploy", text)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))"
    full = f"{limit}; from tfdeploy.cli import main; main()"
    done = command(*writer, "old.tfdeploy", program=("-c", full))
    assert done.code == 2
    assert done.err.startswith("error[TFD199]: `old.tfdeploy`: file too large\n")
    assert command.read("old.tfdeploy") == text
    assert sorted(each.name for each in command.directory.iterdir()) == ["good.tfdeploy", "old.tfdeploy"]


def test_check_finds_what_is_wrong_with_the_plan(tmp_path: Path, command: Command) -> None:
    """A global batch that does not divide among the clones needs no graph to be found."""
    spec = tmp_path / "uneven.tfdeploy"
    spec.write_text(
        'tfdeploy = 1\nmodel "m" {\n  x = input(float32, [4])\n  y = input(int32, [])\n  p = x -> Dense(3)\n'
        "  loss = [y, p] -> SparseCategoricalCrossentropy(from_logits = true)\n}\n"
        "devices { cpu = 3 }\nclones { count = 3, global_batch = 64 }\n"
    )
    done = command("check", "--format", "concise", str(spec))
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"{spec}:9:36: error[TFD501] a global batch of 64 does not divide evenly among 3 clones\n"
    )


@pytest.mark.parametrize("arguments", [("check", "-"), ("fmt", "-"), ("show", "-")])
def test_a_standard_input_without_end_is_refused(arguments: tuple[str, ...]) -> None:
    """No more is read of it than a spec may have, and the message says how much that is."""
    with Path("/dev/zero").open("rb") as endless:
        program = [sys.executable, "-m", "tfdeploy", *arguments]
        done = subprocess.run(program, stdin=endless, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error[TFD193]: `<stdin>` is too large\n  = note: a spec has at most 10,000,000 bytes"
    )
