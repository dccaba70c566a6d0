"""`calibrate`, whose processes are forked here, and what `plan` makes of the profile that it writes."""

import json
from contextlib import chdir
from functools import partial
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from compiler.time.profile import MeasuredMachine, OpCost, Profile, read_profile
from dsl.files.typed_json import to_json
from tests import forked
from tests.cli.conftest import Command
from tfdeploy.cli.commands import calibrate
from tfdeploy.cli.common import Common
from tfdeploy.cli.group import load
from tfdeploy.runtime.calibrate import processes

SPEC = """\
tfdeploy = 1

model "small" {
  image = input(float32, [64])
  digit = input(int32, [])
  logits = image -> Dense(32, activation = relu, name = "hidden") -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices { cpu = 2 }
clones { batch = 4 }
place { variables -> cpu[0] }
update { optimizer = SGD(0.1) }
"""


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return a directory with a spec and its profile."""
    command = Command(tmp_path_factory.mktemp("calibrated"))
    command.write("small.tfdeploy", SPEC)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "subprocess", SimpleNamespace(Popen=partial(forked.Popen, stderr=PIPE)))
        done = command("calibrate", "small.tfdeploy", "--steps", "5", "--seconds", "0.1")
    assert done.code == 0, done.err
    assert done.out.endswith("small.profile.json: written\n")
    assert " on one thread" in done.out
    return command


@pytest.mark.full
def test_the_profile_has_the_ops_of_the_spec(calibrated: Command) -> None:
    """Every kind of op of the step is there, and what was measured of it is a time."""
    profile = read_profile(calibrated.directory / "small.profile.json")
    assert profile.specs == ("small.tfdeploy",)
    products = [each for each in profile.ops if each.type == "MatMul"]
    assert {each.inputs for each in products} >= {
        ("float32[4,64]", "float32[64,32]"),
        ("float32[4,32]", "float32[32,10]"),
    }
    assert all(each.alone > 0 and each.crowded > 0 and each.runs == 1 for each in products)
    if profile.machine.cores > 1:
        assert profile.tower_awake > 0
        assert all((each.wide is None) == (each.type == "IteratorGetNext") for each in profile.ops)
    assert profile.op_start > 0


def planned(command: Command, *arguments: str) -> dict[str, Any]:
    """Return the map of the spec as JSON."""
    done = command("plan", "small.tfdeploy", "--json", *arguments)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_plan_finds_it_beside_the_spec(calibrated: Command) -> None:
    """The table has a column and the map a record, whose critical path adds up to the step."""
    done = calibrated("plan", "small.tfdeploy")
    assert "in/step  out/step  busy\n" in done.out
    assert "a step takes " in done.out
    assert "forecast by small.profile.json\n" in done.out
    time = planned(calibrated)["time"]
    assert (time["estimate"], time["measured"], time["links"]) == (False, 1.0, [])
    for parts in (time["by_scope"], time["by_rule"]):
        assert sum(each["seconds"] for each in parts) == pytest.approx(time["seconds"])
    assert {each["ref"] for each in time["devices"]} == {"cpu[0]", "cpu[1]"}
    assert all(0 < each["busy"] <= 1 for each in time["devices"])


def test_slower_ops_make_a_slower_step(calibrated: Command, tmp_path: Path) -> None:
    """The forecast is that of the profile which is named, and no other."""
    path = calibrated.directory / "small.profile.json"
    slow = json.loads(path.read_text(encoding="utf-8"))
    for each in slow["ops"]:
        if each["type"] == "MatMul":
            each |= {"alone": 1.0, "crowded": 1.0, "wide": 1.0}
    other = tmp_path / "slow.profile.json"
    other.write_text(json.dumps(slow), encoding="utf-8")
    time = planned(calibrated, "--profile", str(other))["time"]
    assert time["source"] == str(other)
    assert 5 <= time["seconds"] < 6.5  # each tower has five products, and the two run side by side
    longest = {each["name"] for each in time["by_scope"][:2]}
    assert longest <= {
        "hidden",
        "logits",
        "gradients/logits",
        "gradients/hidden",
    }


@pytest.mark.full
def test_other_commands_use_it(calibrated: Command) -> None:
    """`why` names the critical path, `diff` both times, `expect` compares, `--trace` writes the step."""
    why = calibrated("why", "small.tfdeploy", "clone_0/*")
    assert "of these on the critical path: " in why.out
    diff = calibrated("diff", "small.tfdeploy", "--set-b", "clones.count=1", "--json")
    time = json.loads(diff.out)["time"]
    assert min(time["before"], time["after"]) > 0
    calibrated.write("strict.tfdeploy", f"{SPEC}expect {{ step_time <= 1us, busy(cpu[0]) >= 0% }}\n")
    arguments = ("--profile", "small.profile.json", "--trace", "step.json")
    strict = calibrated("plan", "strict.tfdeploy", *arguments)
    assert (strict.code, "TFD536" in strict.err, "TFD537" in strict.err) == (1, True, False)
    names = {each["name"] for each in json.loads(calibrated.read("step.json"))["traceEvents"]}
    assert "clone_1/hidden/MatMul" in names
    events = [{"ph": "X", "dur": 5, "args": {"name": "clone_1/hidden/MatMul"}}]
    calibrated.write("trace.json", json.dumps({"traceEvents": events}))
    beneath = calibrated("plan", "small.tfdeploy", "--measured", "trace.json")
    assert (beneath.code, beneath.out.startswith("measured in 1 step: its ops took 5.00 µs")) == (0, True)
    strange = calibrated("plan", "small.tfdeploy", "--measured", "small.profile.json")
    assert (strange.code, "is not the trace of a run: it lacks" in strange.err) == (2, True)
    unknown = calibrated("plan", "strict.tfdeploy")
    assert (unknown.code, "TFD538" in unknown.err) == (1, True)


def test_an_estimate_is_said_to_be_one(command: Command) -> None:
    """Without a profile, `devices.kind` gives a forecast that is marked; with neither there is none."""
    command.write("small.tfdeploy", SPEC)
    assert planned(command)["time"] is None
    assert planned(command, "--set", "devices.kind=cpu")["time"]["estimate"] is True
    done = command("plan", "small.tfdeploy", "--set", "devices.kind=cpu")
    assert "an estimate for the hardware `cpu`" in done.out


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("mine.json", "error[TFD753]"),
        ("small.tfdeploy", "error[TFD752]"),
        ("nowhere/small.json", "error[TFD733]: `nowhere/small.json` cannot be written: no such file"),
    ],
)
def test_what_cannot_be_written_is_found_before_anything_is_measured(
    command: Command, output: str, said: str
) -> None:
    """A file that is no profile and the spec itself stay, and no process is started that would measure."""
    command.write("small.tfdeploy", SPEC)
    command.write("mine.json", "mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "subprocess", SimpleNamespace())
        done = command("calibrate", "small.tfdeploy", "--output", output)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)
    assert command.read("mine.json") == "mine"


def test_a_damaged_profile_ends_the_command(calibrated: Command) -> None:
    """It is told before the graph is built, with its place."""
    path = calibrated.directory / "damaged.json"
    profile = json.loads(to_json(read_profile(calibrated.directory / "small.profile.json")))
    profile["ops"][3]["alone"] = "fast"
    path.write_text(json.dumps(profile), encoding="utf-8")
    done = calibrated("plan", "small.tfdeploy", "--profile", "damaged.json")
    assert done.code == 2
    assert (
        "damaged.json` is not a profile of a machine: it has `ops[3].alone`, which is no number" in done.err
    )
    assert calibrated("plan", "small.tfdeploy", "--profile", "absent.json").code == 2


def test_only_cpus_are_measured(command: Command) -> None:
    """GPUs are refused before anything is built."""
    command.write("small.tfdeploy", SPEC.replace("cpu = 2", "cpu = 1, gpu = 2"))
    jobs = 'job "worker" { tasks = 2, cpu = 1, gpu = 1 }'
    for name, devices in (("small", "cpu = 1, gpu = 2"), ("jobs", jobs)):
        command.write(f"{name}.tfdeploy", SPEC.replace("cpu = 2", devices))
        with chdir(command.directory):
            done = CliRunner().invoke(load("calibrate"), [f"{name}.tfdeploy"], standalone_mode=False)
        assert done.return_value == 2
        assert "only CPUs are measured" in done.stderr


def test_processes_that_measure_get_the_common_options() -> None:
    """Those that are given, so that they read the same spec in the same way."""
    assert Common().settings == Common().flags == []
    every = Common((("clones.count", "4"), ("a", "b=c")), True, "never", True, True, True)
    assert every.settings == ["--set", "clones.count=4", "--set", "a=b=c"]
    assert every.flags == ["--allow-python", "--verbose", "--quiet", "--debug"]
    assert Common(debug=True).flags == ["--debug"]


def test_processes_that_measure_get_a_file_that_is_called_like_an_option(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is an argument of theirs, too."""
    given: list[list[str]] = []
    monkeypatch.setattr(processes, "measure_in_processes", lambda words, _: given.append(words))
    command.write("-s.tfdeploy", SPEC)
    command("calibrate", "--", "-s.tfdeploy")
    assert [each[:2] for each in given] == [["calibrate", "./-s.tfdeploy"]]


def test_the_summary_of_what_was_measured() -> None:
    """One core has one figure, several have three; kinds count that are of the step and took time."""
    ops = tuple(
        OpCost("Relu", (), "", 1, 1, number, 1.0, seconds, seconds)
        for number, seconds in ((1, 1e-6), (2, 1e-6), (0, 1e-6), (1, 0.0))
    )
    machine = MeasuredMachine("a processor", 1, "2.21.0")
    one = Profile(machine, (), 0.0, 2e-6, 0.0, 1e9, 1e9, ops, (), serial=3e-3, parallel=2e-3)
    assert calibrate._summary(one) == [
        "a processor, 1 core, TensorFlow 2.21.0",
        "a step took 3.00 ms on one thread",
        "2 kinds of ops; starting an op takes 2.00 µs",
    ]
    two = evolve(one, machine=evolve(one.machine, cores=2))
    wide = evolve(two, serial=1e-3)
    assert calibrate._summary(two, wide)[1] == (
        "a step took 3.00 ms on one thread, 2.00 ms with 2 ops at a time, 1.00 ms with 2 threads for each op"
    )
