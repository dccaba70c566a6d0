"""`doctor --gpu`: every rung holds on logical devices, fails if what it tries is broken, and may crash."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from attrs import evolve
from click.testing import CliRunner

from compiler.step.read.memory import StepMemory
from compiler.step.sums import AGGREGATIONS
from tfdeploy.cli.group import load
from tfdeploy.doctor import gpu, ladder
from tfdeploy.doctor.gpu import RUNGS, Climb, Outcome, Rung, impersonal

MACHINE = ladder.Machine(2, emulate=True)
Patch = pytest.MonkeyPatch


def wrong_op(patch: Patch) -> None:
    """Let products be wrong."""
    right = tf.linalg.matmul
    patch.setattr(ladder.tf.linalg, "matmul", lambda *given: right(*given) * 1.5)


def wrong_steps(patch: Patch) -> None:
    """Let training be another one than that of the reference."""
    ladder.reference()
    patch.setattr(ladder, "SPEC", ladder.SPEC.replace("0.05", "0.06"))


def wrong_sum(name: str) -> Callable[[Patch], None]:
    """Return what lets an aggregation leave out all clones but the first."""

    def fault(patch: Patch) -> None:
        right = AGGREGATIONS[name]
        patch.setitem(
            AGGREGATIONS,
            name,
            lambda reduction, *more: right(
                evolve(reduction, values=[reduction.values[0]] * len(reduction.values)), *more
            ),
        )

    return fault


def wrong_memory(patch: Patch) -> None:
    """Let the forecast leave out all tensors."""
    patch.setattr(ladder, "forecast_memory", lambda _: {f"gpu[{at}]": StepMemory(0, ()) for at in range(2)})
    patch.setattr(ladder, "ROOM", 0)


def wrong_place(patch: Patch) -> None:
    """Let TensorFlow have run an op elsewhere."""
    right = ladder.map_placement

    def moved(compiled: Any, assigned: Mapping[str, str], memory: Any) -> Any:
        name = next(each for each in assigned if each.startswith("clone_1/") and "CPU:2" in assigned[each])
        return right(compiled, {**assigned, name: assigned[name].replace("CPU:2", "CPU:0")}, memory)

    patch.setattr(ladder, "map_placement", moved)


FAULTS: dict[str, tuple[Callable[[Patch], None], str]] = {
    "op": (wrong_op, "is wrong by"),
    "tower": (wrong_steps, "weights of one tower differ"),
    "two towers": (wrong_sum("add_n"), "weights of two towers differ"),
    "aggregations": (wrong_sum("ring"), "weights of ring differ"),
    "collectives": (wrong_sum("collective"), "weights of collective differ"),
    "float16": (wrong_steps, "weights of mixed_float16 differ"),
    "memory": (wrong_memory, "were forecast, and"),
    "placement": (wrong_place, "ran elsewhere than requested, such as clone_1/"),
}


@pytest.mark.slow
@pytest.mark.family(every=4)
@pytest.mark.parametrize("name", FAULTS)
def test_a_rung_holds_and_fails_if_what_it_tries_is_broken(name: str, monkeypatch: Patch) -> None:
    """On logical devices, by its own figures."""
    sound = ladder.climb(name, MACHINE)
    assert (sound.failure, sound.skipped) == (None, None)
    assert sound.figures
    fault, words = FAULTS[name]
    fault(monkeypatch)
    broken = ladder.climb(name, MACHINE)
    assert words in (broken.failure or ""), broken


def test_gpus_that_are_not_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    """It fails without any GPU, and if TensorFlow can use fewer than the driver has."""
    real = ladder.Machine(0, emulate=False)
    monkeypatch.setattr(ladder, "DRIVER", tmp_path)
    monkeypatch.setattr(ladder.tf.config, "list_physical_devices", lambda _: [])
    assert ladder.climb("seen", real).failure == "the driver has 0 GPUs, and TensorFlow can use 0"
    for name in ("a", "b"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    monkeypatch.setattr(ladder.tf.config, "list_physical_devices", lambda _: ["one"])
    assert ladder.climb("seen", real).failure == "the driver has 2 GPUs, and TensorFlow can use 1"
    assert ladder.climb("seen", MACHINE).skipped == "2 logical CPUs in place of GPUs"
    assert ladder.climb("collectives", ladder.Machine(1, emulate=True)).skipped == "there is only one GPU"


def test_every_rung_is_tried_and_made_to_fail() -> None:
    """Words, functions and faults are of the same rungs."""
    assert list(RUNGS) == list(ladder.TRIED) == ["seen", *FAULTS]


# --- processes that crash and hang ------------------------------------------------------------------------

SCRIPT = """
import json, os, signal, sys, time
fault, names = FAULT, sys.argv[2:]
def say(**fields):
    print(json.dumps(fields), flush=True)

say(tensorflow="2", keras="3", cuda=None, cudnn=None, driver=None, gpus=[])
for name in names:
    print(name, flush=True)
    if name == fault[0] and fault[1] == "crash":
        print("NCCL: unhandled system error in /home/somebody/model", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == fault[0] and fault[1] == "hang":
        time.sleep(600)
    if name == fault[0] and fault[1] == "end":
        sys.exit(3)
    failure = "it is wrong" if name == fault[0] else None
    say(name=name, failure=failure, skipped=None, seconds=1, figures={"a": 1})
"""


def climbed(folder: Path, rung: str, fault: str) -> tuple[gpu.GpuReport, list[Rung]]:
    """Climb a ladder with a rung that fails in some way; return the report and what was told."""
    script = folder / "script.py"
    script.write_text(SCRIPT.replace("FAULT", repr((rung, fault))))
    told: list[Rung] = []
    return Climb(2, told.append, (sys.executable, str(script))).report(), told


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        ("wrong", "it is wrong"),
        ("crash", "its process was ended by SIGSEGV (NCCL: unhandled system error in PATH)"),
        ("hang", "nothing has come for 2 s"),
        ("end", "its process ended with exit code 3"),
    ],
)
def test_a_rung_that_ends_the_process(fault: str, failure: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """The others are tried in another process; those that need it are not."""
    monkeypatch.setattr(gpu, "PATIENCE", 2.0)
    report, told = climbed(tmp_path, "collectives", fault)
    assert [each.outcome.name for each in report.failed] == ["collectives"]
    assert report.failed[0].outcome.failure == failure
    assert report.failed[0].advice == RUNGS["collectives"].advice
    assert [each.outcome.name for each in report.rungs] == list(RUNGS)
    assert {each.state for each in report.rungs if each.outcome.name != "collectives"} == {"ok"}
    assert len(told) == len(RUNGS)
    assert report.installed is not None


def test_what_needs_a_rung_that_fails_is_not_tried(tmp_path: Path) -> None:
    """It is said which one is missing."""
    report, _ = climbed(tmp_path, "two towers", "wrong")
    skipped = {each.outcome.name: each.outcome.skipped for each in report.rungs if each.state == "skipped"}
    assert skipped == dict.fromkeys(("aggregations", "collectives", "placement"), "it needs `two towers`")
    assert {each.outcome.name: each.state for each in report.rungs}["float16"] == "ok"


def test_reports_have_nothing_personal() -> None:
    """No paths, addresses, users or machines; names of devices stay."""
    known = [("/home/eve/work", "FOLDER"), ("/home/eve", "HOME"), ("eve-laptop", "HOST"), ("eve", "USER")]
    text = "eve@eve-laptop (10.0.0.7): /home/eve/work/a.py, /opt/secret/lib.so on /device:GPU:0, every level"
    assert impersonal(text, known) == "USER@HOST (ADDRESS): FOLDER/a.py, PATH on /device:GPU:0, every level"


def test_the_command(tmp_path: Path, monkeypatch: Patch) -> None:
    """It prints a line for each rung and writes the report, which replaces its own kind only."""
    monkeypatch.chdir(tmp_path)
    outcome = Outcome("op", "it is wrong", None, 1.0, {})
    rung = Rung("a product", outcome, "try another one")
    report = gpu.GpuReport(2, None, (rung,))

    def climb(self: Climb) -> gpu.GpuReport:
        self._tell(rung)
        return report

    monkeypatch.setattr(gpu.Climb, "report", climb)
    command, words = load("doctor"), ["--gpu", "--emulate", "2", "--report", "report.json"]
    for _ in range(2):
        done = CliRunner().invoke(command, words, standalone_mode=False)
        assert done.return_value == 1
        assert done.stdout == (
            "FAILS    op            it is wrong\n                        = try another one\n\n"
            "the first rung that fails is `op`\nreport: report.json\n"
        )
        assert gpu.GpuReport.read(Path("report.json").read_bytes()) == report
    assert json.loads(CliRunner().invoke(command, [*words[:3], "--json"], standalone_mode=False).stdout)
    Path("report.json").write_text("mine")
    assert CliRunner().invoke(command, words, standalone_mode=False).return_value == 2
    assert Path("report.json").read_text() == "mine"
    assert CliRunner().invoke(command, ["--emulate", "2"], standalone_mode=False).return_value == 2
