"""Small runs, each of which shows one thing: what is warned of, recorded, summed up and profiled."""

import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import grammar
from compiler.graph.build import compile_step
from compiler.pipeline import make_plan
from compiler.step.read.held import held_by_device
from compiler.step.read.memory import forecast_memory
from compiler.time.measured_trace import read_trace
from tests.docs.test_schemas import validator
from tests.runtime.conftest import DIGITS, Listener, Project
from tests.support import refusal
from tfdeploy.cli.group import load
from tfdeploy.runtime.records.lock import MARKER
from tfdeploy.runtime.show.runs import read_curves
from tfdeploy.runtime.train.events import merged


@pytest.mark.full
def test_the_list_of_checkpoints_cannot_be_written(project: Project) -> None:
    """A folder in the place of the file by which TensorFlow finds checkpoints is told as what it is."""
    listed = project.run_directory / "checkpoints" / "checkpoint"
    listed.mkdir(parents=True)
    (listed / "in the way").touch()
    (project.run_directory / MARKER).touch()
    found = refusal(project.run, train__steps=2)
    assert found.code == "TFD733"
    assert found.message.startswith(f"`{listed}` cannot be written: ")
    assert project.run_directory.joinpath("checkpoints", "model.ckpt-2.json").exists()


@pytest.mark.full
def test_a_scale_that_a_checkpoint_lacks(project: Project) -> None:
    """A run that goes on with loss scaling says that the precision was changed."""
    project.run(train__steps=4)
    listener = Listener()
    project.run(train__steps=8, update__precision="mixed_float16", reporter=listener)
    (found,) = listener.warnings
    assert found.notes == (
        "the missing variables get their initial values",
        "`precision` has been changed since",
    )


def test_labels_out_of_range(project: Project) -> None:
    """Both clones fail at once; the message has the first such label of the file, and the loss."""
    project.write(project.spec.read_text().replace("Dense(10,", "Dense(2,"))
    process = project.start(
        "--set", "train.deterministic=false"
    )  # which TensorFlow keeps for a whole process
    _, said = process.communicate()
    labels = [int(line.rpartition(",")[2]) for line in (DIGITS / "train.csv").read_text().splitlines()[1:]]
    at = next(at for at, each in enumerate(labels) if each > 1)
    place = f"`{DIGITS / 'train.csv'}`, row {at + 2}, column `digit`"
    first, *_ = said.splitlines()
    assert process.returncode == 2
    assert first == f"error[TFD707]: {place}: `{labels[at]}` is outside the range of 0 to 1"
    assert f"::: {project.spec}:" in said
    assert "loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)" in said
    assert "takes 0 to 1" in said


@pytest.mark.full
def test_moved_ops_are_told_of_once(project: Project) -> None:
    """With soft placement and a GPU that is not there the run goes on, warns, and the map has the moves."""
    place = "place {\n  clones -> [gpu[999], cpu[0]]\n}\n"
    spec = project.spec.read_text().replace(
        "cpu = 4", "cpu = 1\n  gpu = 1000  # tfdeploy: allow(unused-device)\n  soft_placement = true"
    )
    project.write(spec + place)
    process = project.start("--set", "train.steps=2")
    _, said = process.communicate()
    assert process.returncode == 0
    assert said.count("warning[") == 1
    found = re.search(
        r"TFD515]: (\d+) ops ran on another device than requested: (\d+) from `gpu\[999]` to `cpu\[0]`", said
    )
    moved = json.loads((project.run_directory / "placement.json").read_text())["misplaced"]
    assert {(op["requested"], op["assigned"]) for op in moved} == {("gpu[999]", "cpu[0]")}
    assert 0 < int(found[1]) == int(found[2]) <= len(moved)  # evaluation comes later


GROUPS = """optimizer {
    "logits/*" -> SGD(0.25)
    "*" -> SGD(ExponentialDecay(0.5, 2, 0.5, staircase = true))
  }"""


@pytest.mark.family(every=2)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_rate_of_each_group_is_recorded(project: Project, mode: str) -> None:
    """In the history, as a curve, and for TensorBoard; the rate of the first group stays `learning_rate`."""
    text = project.spec.read_text().replace("optimizer = Adam(learning_rate = 1e-2)", GROUPS)
    project.write(text.replace("deterministic = true", "log_every = 1"))
    project.run(train__steps=4, update__mode=mode, clones__count=1)
    lines = [each for each in project.history() if each["split"] == "train"]
    assert {each["learning_rate"] for each in lines} == {0.25}
    assert {each["learning_rates"]["logits/*"] for each in lines} == {0.25}
    rates = [each["learning_rates"]["*"] for each in lines]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] <= 0.25
    assert set(rates) <= {0.5, 0.25, 0.125}
    if mode == "sync":  # clones that update alone may go on for steps before they are asked
        assert rates[0] == 0.5
    (curve,) = read_curves([project.run_directory], "learning_rate/*")
    assert [value for _, value in curve.points] == rates
    (events,) = (project.run_directory / "events" / "train").glob("events.out.*")
    tags = {
        value.tag for each in tf.compat.v1.train.summary_iterator(str(events)) for value in each.summary.value
    }
    assert {"learning_rate", "learning_rate/logits/*", "learning_rate/*"} <= tags


STRONG = "-> scale(image, 1000)"  # gradients that the first scale of the loss makes infinite in float16


@pytest.mark.full
def test_a_run_makes_as_many_steps_as_it_should_in_spite_of_skipped_ones(project: Project) -> None:
    """The steps asked for are updates; those that were skipped on the way count as examples only."""
    text = project.spec.read_text()
    project.write(text.replace("-> scale(image, 1 / 16)\n    -> shuffle", f"{STRONG}\n    -> shuffle"))
    result = project.run(update__precision="mixed_float16", train__steps=20)
    manifest = json.loads((project.run_directory / "checkpoints" / "model.ckpt-20.json").read_text())
    assert (result.status, result.steps, manifest["step"]) == ("finished", 20, 20)
    assert manifest["examples"] > 20 * 32
    assert manifest["examples"] % 32 == 0
    variables = project.variables(20)
    skipped = manifest["examples"] // 32 - 20
    assert (variables["global_step"], variables["loss_scale"]) == (20, 2.0 ** (15 - skipped))


def test_gradients_that_no_scale_makes_finite_end_the_run(project: Project) -> None:
    """Where every step is skipped the run ends, and says that the scale is not to blame."""
    text = project.spec.read_text()
    project.write(
        text.replace("-> scale(image, 1 / 16)\n    -> shuffle", "-> scale(image, 1e30)\n    -> shuffle")
    )
    found = refusal(project.run, update__precision="mixed_float16", train__steps=20)
    assert (found.code, found.message) == ("TFD730", "the gradients of 40 steps in a row were not finite")


v1 = tf.compat.v1


def _summary(values: dict[str, np.ndarray], norms: dict[str, float]) -> list[Any]:
    """Return the summary that TensorFlow makes."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = [v1.summary.histogram(tag, tf.constant(value)) for tag, value in values.items()]
        made += [v1.summary.scalar(tag, norm) for tag, norm in norms.items()]
        return list(v1.Summary.FromString(session.run(v1.summary.merge(made))).value)


def _filled(histogram: Any) -> list[tuple[float, float, float]]:
    """Return the buckets with elements: where they begin and end, and their numbers of elements."""
    begins = [-np.inf, *histogram.bucket_limit]
    buckets = zip(begins, histogram.bucket_limit, histogram.bucket, strict=False)
    return [each for each in buckets if each[2]]


@pytest.mark.parametrize("edges", [(0, 7, 40, 100), (0, 1, 100), (0, 50, 100)])
def test_the_histogram_of_pieces_is_that_of_the_whole(edges: tuple[int, ...]) -> None:
    """Every bucket, however the rows are cut; and the norm is that of all gradients."""
    whole = np.random.default_rng(1).standard_cauchy((100, 3)).astype(np.float32)
    whole[50:] *= 1e-6
    pieces = [whole[begin:end] for begin, end in pairwise(edges)]
    tags = [f"weights/a/table/shard_{at}" for at in range(len(pieces))]
    norms = {f"a/table/shard_{at}/gradient_norm": np.linalg.norm(each) for at, each in enumerate(pieces)}
    found = merged(_summary({**dict(zip(tags, pieces, strict=True)), "weights/b": whole}, norms))
    (wanted,) = _summary({"weights/a/table": whole}, {})
    assert [each.tag for each in found] == ["weights/a/table", "weights/b", "a/table/gradient_norm"]
    assert _filled(found[0].histo) == _filled(wanted.histo)
    for name in ("min", "max", "num"):
        assert getattr(found[0].histo, name) == getattr(wanted.histo, name)
    assert found[0].histo.sum == pytest.approx(wanted.histo.sum)
    assert found[0].histo.sum_squares == pytest.approx(wanted.histo.sum_squares)
    assert found[1].histo == _summary({"weights/b": whole}, {})[0].histo
    assert found[2].simple_value == pytest.approx(np.linalg.norm(whole), rel=1e-5)


def invoke(arguments: list[str]) -> Any:
    """Run the command in this process; `return_value` is its exit code."""
    return CliRunner().invoke(load("compile-and-run"), arguments, standalone_mode=False)


def test_both_profiles_are_written(project: Project) -> None:
    """One is for TensorBoard, one has a track for each device; the steps are those of the run."""
    arguments = [str(project.spec), "--profile", "3", "--set", f"train.directory={project.run_directory}"]
    done = invoke([*arguments, "--set", "train.steps=20"])
    assert done.return_value == 0, done.stderr
    folder = project.run_directory / "profile"
    assert len(list(folder.glob("plugins/profile/*/*.xplane.pb"))) == 1
    trace = json.loads((folder / "trace.json").read_text())
    validator("trace").validate(trace)
    events = trace["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {f"/job:localhost/replica:0/task:0/device:CPU:{at} Compute" for at in (0, 1)} <= tracks
    assert any("MatMul" in event["name"] for event in events)
    of_run = read_trace(folder / "trace.json")
    assert of_run.steps == 3
    assert "clone_1/logits/MatMul" in of_run.seconds()
    assert project.variables(20)["global_step"] == 20
    assert project.steps() == [10, 20]
    (told,) = (each for each in done.output.splitlines() if each.startswith("memory of a profiled step: "))
    step = compile_step(make_plan(grammar.load(project.spec))).step
    memory = forecast_memory(step)
    fullest = max(memory, key=lambda ref: memory[ref].bytes)
    found = re.search(rf"([\d.]+) KiB on {re.escape(fullest)}", told)
    assert found is not None, told
    needed = sum(held_by_device(step)[fullest].values()) + memory[fullest].bytes
    assert float(found[1]) * 1024 == pytest.approx(needed, rel=0.5)


@pytest.mark.full
def test_a_short_run_keeps_what_there_is(project: Project) -> None:
    """A run that ends before its profile does leaves the profile of the steps that it made."""
    arguments = [str(project.spec), "--profile", "50", "--set", f"train.directory={project.run_directory}"]
    done = invoke([*arguments, "--set", "train.steps=10"])
    assert done.return_value == 0, done.stderr
    assert len(list(project.run_directory.glob("profile/plugins/profile/*/*.xplane.pb"))) == 1


def test_clones_that_step_by_themselves_are_not_profiled(project: Project) -> None:
    """With `mode = async` there is no step to profile, which is said."""
    arguments = [str(project.spec), "--profile", "3", "--set", "update.mode=async"]
    done = invoke([*arguments, "--set", "train.deterministic=false"])
    assert done.return_value == 2
    assert "--profile needs clones that make their steps together" in done.stderr
