"""What is strange about a spec reaches people from every command, and from Python."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import tfdeploy
from tests.cli.conftest import Command
from tfdeploy.cli.group import load

SPEC = """\
tfdeploy = 1

model "m" {
  x = input(float32, [4])
  y = input(float32, [1])
  z = x -> Dense(2, name = "a") -> Dense(1, name = "b")
  loss = [y, z] -> MeanSquaredError()
}

data { train = npz("train.npz") }
devices { cpu = 2, cpu_memory = 1KiB, link = 1GB }
clones { count = 2, batch = 64 }

place {
  variables("b/*") -> cpu[1]
  variables("b/k*") -> cpu[0]
  variables("b/b*") -> cpu[0]
  OVERRULED
}

update { optimizer = SGD(0.1) }
train { steps = 1, summaries = none }
"""
OVERRULED = "inputs -> cpu[1], inputs -> cpu[0]"
"""Rules of which reading the spec tells, whatever names there are."""
STRANGE = ["TFD516", "TFD604", "TFD535"]
UNMET = 'expect { ops(cpu[1], "b/MatMul") == 7 }\n'


@pytest.fixture
def spec(command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec with `link`, a rule that never decides, and too little memory, in the directory of the test."""
    monkeypatch.chdir(command.directory)
    np.savez(
        command.directory / "train.npz", x=np.ones((128, 4), np.float32), y=np.ones((128, 1), np.float32)
    )
    return command.write("strange.tfdeploy", SPEC.replace("  OVERRULED\n", ""))


def invoke(name: str, *arguments: Path | str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(load(name), list(map(str, arguments)), standalone_mode=False)


def codes(text: str) -> list[str]:
    """Return the codes of the diagnostics in what a command has written."""
    return [line.split("[")[1][:6] for line in text.splitlines() if line.startswith(("warning[", "error["))]


def test_every_command_shows_them(command: Command, spec: Path) -> None:
    """`plan`, `compile` and `compile-and-run` show each once; `check` what needs no graph."""
    assert codes(invoke("check", spec).stderr) == ["TFD516"]
    planned = invoke("plan", spec)
    assert (codes(planned.stderr), planned.return_value) == (STRANGE, 0)
    plainly = command.write("plainly.tfdeploy", SPEC.replace("OVERRULED", OVERRULED))
    assert codes(invoke("plan", plainly).stderr) == ["TFD604", *STRANGE]
    compiled = invoke("compile", spec, "--out", "out")
    assert (codes(compiled.stderr), compiled.return_value) == (STRANGE, 0)
    ran = command("compile-and-run", "strange.tfdeploy")
    assert (codes(ran.err), ran.code) == (STRANGE, 0)


def test_a_quiet_command_shows_none(command: Command, spec: Path) -> None:
    """Only errors and the last summary are left, and what the command was asked for."""
    checked = invoke("check", spec, "-q")
    assert (checked.stderr, checked.stdout) == ("", f"{spec}: no errors\n")
    planned = invoke("plan", spec, "--quiet")
    assert (planned.stderr, planned.return_value, "cpu[1]" in planned.stdout) == ("", 0, True)
    ran = command("compile-and-run", "strange.tfdeploy", "-q")
    title, *rows = ran.out.splitlines()
    assert (ran.err, ran.code, title, rows[-1].split()[0]) == ("", 0, "finished at step 1", "directory")
    wrong = invoke("check", spec, "-q", "--set", "clones.batch=0")
    assert (codes(wrong.stderr), wrong.return_value) == (["TFD305"], 1)


def test_memory_is_shown_and_what_is_too_much_is_told(spec: Path) -> None:
    """The map says how full a machine is, whose CPU devices share it; the warning names what is largest."""
    done = invoke("plan", spec)
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("memory "))
    place, *figures = lines[at + 1].split()
    assert (place, figures[2:4]) == ("cpu[0..1]", ["1.00", "KiB"])
    needed = float(figures[0])
    assert (figures[1], needed > 1, float(figures[4].rstrip("%"))) == (
        "KiB",
        True,
        pytest.approx(100 * needed, abs=1),
    )
    assert f"a step needs {figures[0]} KiB on `cpu[0..1]`" in done.stderr
    assert "strange.tfdeploy:11:33" in done.stderr
    assert "largest there, with slots: `a/kernel` (32 B)" in done.stderr
    roomy = invoke("plan", spec, "--set", "devices.cpu_memory=1GiB")
    assert codes(roomy.stderr) == ["TFD516", "TFD604"]


@pytest.mark.full
def test_python_has_them_as_warnings(spec: Path) -> None:
    """`compile` and `run` issue Python warnings with the diagnostics, or tell who asks to be told."""
    loaded = tfdeploy.load(spec)
    found: list[str] = []
    tfdeploy.compile(loaded, warn=lambda each: found.append(each.code))
    assert found == STRANGE
    for action in (tfdeploy.compile, tfdeploy.run):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            action(loaded)
        told = [each.message for each in caught if isinstance(each.message, tfdeploy.SpecWarning)]
        assert [each.diagnostic.code for each in told] == STRANGE
        assert str(told[0]).endswith("strange.tfdeploy:11:46: TFD516: `link` has no effect")


def test_python_is_told_what_reading_finds(command: Command) -> None:
    """`load` issues what is strange about the text as Python warnings, or tells who asks to be told."""
    path = command.write("plainly.tfdeploy", SPEC.replace("OVERRULED", OVERRULED))
    found: list[str] = []
    tfdeploy.load(path, warn=lambda each: found.append(each.code))
    assert found == ["TFD604"]
    with pytest.warns(tfdeploy.SpecWarning, match="plainly.tfdeploy:18:3: TFD604") as caught:
        tfdeploy.load(path)
    assert [(Path(each.filename).name, len(caught)) for each in caught] == [("test_warnings.py", 1)]


def test_python_asks_what_the_spec_expects(spec: Path) -> None:
    """`tfdeploy.compile` raises SpecError for a condition that the placement does not meet."""
    spec.write_text(spec.read_text() + UNMET)
    with pytest.raises(tfdeploy.SpecError) as caught:
        tfdeploy.compile(tfdeploy.load(spec), warn=list[object]().append)
    assert [each.code for each in caught.value.diagnostics] == ["TFD534"]
