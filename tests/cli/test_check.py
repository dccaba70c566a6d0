"""`check` and `fmt` on files: what is written, kept and refused; `test_light.py` has what they say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import GOOD, Command

OLD = GOOD.replace("tfdeploy = 1\n\n", "")
LOOSE = GOOD.replace("  ", "    ")


def test_a_sarif_log_goes_to_standard_output(command: Command) -> None:
    """With the faults of all specs, and the paths of those that cannot be read."""
    command.write("wrong.tfdeploy", GOOD.replace("Dense", "Dens"))
    command.write("strange.tfdeploy", b"\xff\xfe")
    specs = ("wrong.tfdeploy", "nowhere.tfdeploy", "strange.tfdeploy")
    done = command("check", *specs, "--format", "sarif")
    assert (done.code, done.err) == (2, "")
    results = json.loads(done.out)["runs"][0]["results"]
    assert [each["ruleId"] for each in results] == ["TFD404", "TFD190", "TFD192"]
    for name, each in zip(specs, results, strict=True):
        assert each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == name


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [(("check", "--fix"), OLD, "1 fixed\nlink.tfdeploy: no errors"), (("fmt",), LOOSE, "formatted")],
)
def test_a_file_that_is_written_keeps_permissions_and_links(
    command: Command, arguments: tuple[str, ...], text: str, said: str
) -> None:
    """And one with nothing to write is left alone."""
    path = command.write("old.tfdeploy", text)
    path.chmod(0o640)
    (command.directory / "link.tfdeploy").symlink_to("old.tfdeploy")
    before = (command.directory / "good.tfdeploy").stat().st_mtime_ns
    done = command(*arguments, "link.tfdeploy")
    assert (done.code, done.out, done.err) == (0, f"link.tfdeploy: {said}\n", "")
    assert command(*arguments, "good.tfdeploy").code == 0
    assert command.read("old.tfdeploy") == GOOD
    assert (command.directory / "link.tfdeploy").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert (command.directory / "good.tfdeploy").stat().st_mtime_ns == before
    assert command.names() == ["good.tfdeploy", "link.tfdeploy", "old.tfdeploy"]


def test_fix_keeps_line_ends(command: Command) -> None:
    """Windows line ends survive a fix, and errors without a safe fix are still reported."""
    command.write("old.tfdeploy", OLD.replace("Dense", "Dens").replace("\n", "\r\n"))
    done = command("check", "old.tfdeploy", "--fix", "--format", "concise")
    assert (done.code, "error[TFD404]" in done.err) == (1, True)
    text = command.read("old.tfdeploy")
    assert text.startswith("tfdeploy = 1")
    assert text.endswith("  y = x -> Dens(2)\r\n  output = y\r\n}\r\n")


@pytest.mark.parametrize("writer", [("check", "--fix"), ("fmt",)], ids=["fix", "fmt"])
def test_file_that_cannot_be_written(command: Command, writer: tuple[str, ...]) -> None:
    """Where a file cannot be written it stays whole, and the command names it and ends with 2."""
    text = OLD.replace("  ", "    ")
    command.write("old.tfdeploy", text)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))"
    full = f"{limit}; from tfdeploy.cli import main; main()"
    done = command(*writer, "old.tfdeploy", program=("-c", full))
    assert done.code == 2
    assert done.err.startswith("error[TFD199]: `old.tfdeploy`: file too large\n")
    assert command.read("old.tfdeploy") == text
    assert command.names() == ["good.tfdeploy", "old.tfdeploy"]


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
