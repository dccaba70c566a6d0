"""`tfdeploy fmt`: files, standard input, `--check` and `--diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import GOOD

if TYPE_CHECKING:
    from tests.cli.conftest import Command

LOOSE = GOOD.replace("  x = input(float32, [4])", "    x=input( float32,[4] )   # four  ")
TIDY = GOOD.replace("[4])\n", "[4])  # four\n")


def test_file_is_rewritten(command: Command) -> None:
    """A file that is not in the style is rewritten and named; one that is, is left alone in silence."""
    path = command.write("loose.tfdeploy", LOOSE)
    path.chmod(0o600)
    before = (command.directory / "good.tfdeploy").stat().st_mtime_ns
    done = command("fmt", "loose.tfdeploy", "good.tfdeploy")
    assert (done.code, done.out, done.err) == (0, "loose.tfdeploy: formatted\n", "")
    assert command.read("loose.tfdeploy") == TIDY
    assert path.stat().st_mode & 0o777 == 0o600
    assert (command.directory / "good.tfdeploy").stat().st_mtime_ns == before
    assert command("fmt", "loose.tfdeploy").out == ""


def test_standard_input(command: Command) -> None:
    """`-` reads standard input and writes the formatted text to standard output."""
    done = command("fmt", "-", stdin=LOOSE)
    assert (done.code, done.out, done.err) == (0, TIDY, "")


def test_check_writes_nothing(command: Command) -> None:
    """`--check` names what is not in the style and ends with 1."""
    command.write("loose.tfdeploy", LOOSE)
    done = command("fmt", "--check", "loose.tfdeploy", "good.tfdeploy")
    assert (done.code, done.out) == (1, "loose.tfdeploy: would be formatted\n")
    assert command.read("loose.tfdeploy") == LOOSE
    assert command("fmt", "--check", "good.tfdeploy").code == 0
    assert command("fmt", "--check", "-", stdin=LOOSE).code == 1


def test_diff_writes_nothing(command: Command) -> None:
    """`--diff` shows what would change; with `--check` it also ends with 1."""
    command.write("loose.tfdeploy", LOOSE.rstrip("\n"))
    done = command("fmt", "--diff", "loose.tfdeploy")
    assert done.code == 0
    assert done.out.splitlines() == [
        "--- loose.tfdeploy",
        "+++ loose.tfdeploy (formatted)",
        "@@ -1,7 +1,7 @@",
        " tfdeploy = 1",
        " ",
        ' model "m" {',
        "-    x=input( float32,[4] )   # four  ",
        "+  x = input(float32, [4])  # four",
        "   y = x -> Dense(2)",
        "   output = y",
        "-}",
        r"\ No newline at end of file",
        "+}",
    ]
    assert command.read("loose.tfdeploy") == LOOSE.rstrip("\n")
    assert command("fmt", "--diff", "--check", "loose.tfdeploy").code == 1


def test_spec_that_cannot_be_read_is_left_alone(command: Command) -> None:
    """A text with a syntax error is shown with it and stays as it is; unknown names are no matter here."""
    wrong = LOOSE.replace("Dense(2)", "Dense(2")
    command.write("wrong.tfdeploy", wrong)
    done = command("fmt", "wrong.tfdeploy")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[TFD104]: this `(` is never closed\n --> wrong.tfdeploy:5:17\n")
    assert command.read("wrong.tfdeploy") == wrong
    assert command("fmt", "-", stdin=LOOSE.replace("Dense", "Dens")).out == TIDY.replace("Dense", "Dens")


def test_missing_and_binary_files(command: Command) -> None:
    """A file that is not there, or is no text, is named, with exit code 2."""
    (command.directory / "odd.tfdeploy").write_bytes(b"\xff\xfe")
    missing, odd = command("fmt", "nowhere.tfdeploy"), command("fmt", "odd.tfdeploy")
    assert (missing.code, missing.err) == (
        2,
        (
            "error[TFD190]: there is no file `nowhere.tfdeploy`\n\n1 error\n"
            "`tfdeploy explain TFD190` says more about it\n"
        ),
    )
    assert odd.code == 2
    assert odd.err.startswith("error[TFD192]")
    assert command("fmt", "-", stdin=b"\xff").code == 2
