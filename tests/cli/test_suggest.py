"""`suggest`: placements are built, the best rules are printed, and written where that is asked."""

import json

import pytest

import grammar
import tfdeploy
from compiler.figures import duration
from compiler.graph import finished
from compiler.suggest.text import Suggestion
from tests.cli.conftest import Command
from tests.cli.test_plan import SPEC

GROUPS = (
    SPEC.replace("gpu = 2, cpu = 1", "gpu = 2, cpu = 1, kind = t4")
    .replace("clones -> gpu[*]", "# a tower on two devices\n  clones -> groups(gpu[*], size = 2)")
    .replace('  variables("logits/*") -> gpu[1]\n', "")
    .replace("variables -> cpu[0]", "variables -> cpu[0]  # for now")
)


def figure(text: str, row: str) -> list[str]:
    """Return the two last columns of a row of the table: before and after."""
    (line,) = [each for each in text.splitlines() if each.startswith(row)]
    return line.split("  ")[-2:]


def test_better_rules_are_written_and_are_the_best_then(command: Command) -> None:
    """What is written has the figures that were printed, and is the best from there; comments stay."""
    command.write("small.tfdeploy", GROUPS)
    first = command("suggest", "small.tfdeploy", "--for", "balance", "--write")
    assert (first.code, first.out.splitlines()[-1]) == (0, "small.tfdeploy: rules written")
    written = command.read("small.tfdeploy")
    assert "# a tower on two devices" in written
    assert "# for now" in written
    reading = grammar.read("small.tfdeploy", text=written)
    rules = [each.span.text for each in reading.spec.place.rules if each.span is not None]
    printed = first.out[first.out.index("place {") : first.out.index("}\n")].splitlines()[1:]
    assert [each.strip() for each in printed] == rules
    again = command("suggest", "small.tfdeploy", "--for", "balance", "--write")
    assert again.code == 0
    assert "none of them is better than the rules of the spec" in again.out
    assert command.read("small.tfdeploy") == written
    row = "variables and slots on one device"
    assert figure(again.out, row) == [figure(first.out, row)[1]] * 2
    assert figure(first.out, row)[0] != figure(first.out, row)[1]


@pytest.mark.full
def test_the_time_of_a_step_is_lower(command: Command) -> None:
    """A group is tried where that is asked, and a second search has the same result."""
    command.write("small.tfdeploy", SPEC)
    arguments = ("suggest", "small.tfdeploy", "--groups", "2", "--vary", "clones")
    done = command(*arguments)
    assert done.code == 0
    assert "times are estimates for the hardware `v100`" in done.out
    assert "bottleneck: " in done.out
    before, after = figure(done.out, "time of a step")
    assert before != after
    found = json.loads(command(*arguments, "--json").out)
    printed = done.out[done.out.index("place {") :].partition("\n}")[0].splitlines()[1:]
    assert found["rules"] == [each.strip() for each in printed]
    (row,) = [each for each in done.out.splitlines() if each.startswith("time of a step")]
    assert row.split("  ")[-1].strip() == duration(found["after"]["seconds"])
    assert duration(found["before"]["seconds"]) in row
    assert f"{found['gap']:.2f} times that" in done.out
    assert found["after"]["bottleneck"] in done.out
    here = tfdeploy.suggest(command.directory / "small.tfdeploy", groups=2, vary=["clones"])
    assert here.rules == tuple(found["rules"])
    assert here.after.seconds == found["after"]["seconds"]
    assert command.read("small.tfdeploy") == SPEC


def test_what_does_not_fit_is_named(command: Command) -> None:
    """Where nothing fits, the missing bytes and the largest things are printed."""
    command.write("small.tfdeploy", SPEC.replace("cpu = 1", "cpu = 1, gpu_memory = 64B, cpu_memory = 64B"))
    done = command("suggest", "small.tfdeploy", "--for", "memory")
    assert done.code == 1
    assert "nothing that was tried fits: " in done.out
    assert "more than there are" in done.out
    assert "largest there, with slots: `logits/kernel` (1.25 KiB), `hidden/kernel`" in done.out


def test_misuse_is_named(command: Command) -> None:
    """An unknown goal, a spec with errors, a group that is too large, and no forecast end with a message."""
    assert command("suggest", "small.tfdeploy", "--for", "luck").code == 2
    command.write("broken.tfdeploy", "tfdeploy = 1\nplace { cluns -> gpu[*] }\n")
    broken = command("suggest", "broken.tfdeploy")
    assert (broken.code, "TFD" in broken.err) == (1, True)
    command.write("small.tfdeploy", SPEC)
    large = command("suggest", "small.tfdeploy", "--groups", "3")
    assert large.code == 1
    assert "a group of 3 devices cannot be made from 2" in large.err
    cluster = SPEC.replace("gpu = 2, cpu = 1", 'job "ps" {}\n  job "worker" {}\n')
    cluster = cluster[: cluster.index("place {")] + (
        "update {\n  optimizer = SGD(0.1)\n  replication = between_graph\n}\n"
    )
    command.write("cluster.tfdeploy", cluster)
    assert "time of a step" in command("suggest", "cluster.tfdeploy").out
    command.write("small.tfdeploy", SPEC.replace("gpu = 2, cpu = 1", "gpu = 2, cpu = 1, kind = cpu"))
    untimed = command("suggest", "small.tfdeploy")
    assert untimed.code == 2
    assert "give --for memory or --for balance" in untimed.err


WIDE = """\
tfdeploy = 1

model "wide" {
  image = input(float32, [300])
  digit = input(int32, [])
  logits = image -> Dense(600, activation = relu, name = "hidden") -> BatchNormalization() -> Dense(10)
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices { gpu = 4, cpu = 1 }
clones { batch = 8 }  # of each clone

update { optimizer = Momentum(0.1, momentum = 0.9) }  # the usual one

place {
  # as by hand
  clones -> gpu[*]
  variables -> cpu[0]
}
"""


@pytest.mark.full
def test_what_is_asked_for_is_varied_with_few_graphs(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clones, sums and groups change, a step has as many examples, and two graphs are built."""
    built = []
    in_graph = finished.in_graph
    monkeypatch.setattr(finished, "in_graph", lambda compiled: built.append(1) or in_graph(compiled))
    command.write("wide.tfdeploy", WIDE)
    done = command("suggest", "wide.tfdeploy", "--vary", "clones,aggregate,pack,groups", "--json", "--write")
    assert done.code == 0
    assert len(built) == 2  # that of the spec, and that of what is suggested
    found = json.loads(done.out)
    assert (found["built"], found["improved"]) == (1, True)
    assert found["compared"] > 10
    (note,) = found["notes"]
    assert note.startswith("a step has 32 examples as before: ")
    assert "batch normalization takes its statistics from" in note
    written = command.read("wide.tfdeploy")
    assert "# of each clone" in written
    assert "# the usual one" in written
    assert "# as by hand" in written
    plan = tfdeploy.plan(tfdeploy.load(command.directory / "wide.tfdeploy", warn=lambda _: None))
    assert plan.global_batch == 32
    assert f"clones.batch = {plan.towers[0].batch}" in [
        f"{key} = {value}" for key, value in found["values"].items()
    ]


@pytest.mark.full
def test_what_changes_the_training_is_not_varied(command: Command) -> None:
    """With async updates the number of clones stays, one clone has no sums, and the output says why."""
    alone = WIDE.replace("update { ", "update { mode = async, ").replace("gpu[*]", "gpu[0]")
    command.write("alone.tfdeploy", alone)
    done = command("suggest", "alone.tfdeploy", "--vary", "clones,groups,pack", "--for", "balance")
    assert done.code == 0
    assert "there is one clone, whose gradients need no sum" in done.out
    assert "the number of clones is not varied: with `mode = async` it decides" in done.out
    assert command("suggest", "alone.tfdeploy", "--vary", "luck").code == 2


def test_a_spec_that_is_edited_meanwhile_is_kept(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes a while, and what its user writes then is not replaced; the rules are printed."""

    def edited(*_: object) -> bool:
        command.write("small.tfdeploy", f"{GROUPS}# mine\n")
        return True

    monkeypatch.setattr(Suggestion, "improved", property(edited))
    command.write("small.tfdeploy", GROUPS)
    done = command("suggest", "small.tfdeploy", "--for", "balance", "--write")
    assert done.code == 2
    assert done.err.startswith("error[TFD733]: `small.tfdeploy` cannot be written: it has been changed since")
    assert "place {" in done.out
    assert command.read("small.tfdeploy") == f"{GROUPS}# mine\n"


def test_rules_of_another_file_are_not_written(command: Command) -> None:
    """If the rules are in an included file, the message says where, and nothing changes."""
    at = WIDE.index("place {")
    command.write("rules.tfdeploy", WIDE[at:])
    spec = WIDE[:at].replace("tfdeploy = 1", 'tfdeploy = 1\ninclude = ["rules.tfdeploy"]')
    command.write("parts.tfdeploy", spec)
    done = command("suggest", "parts.tfdeploy", "--write")
    assert done.code == 2
    assert "the block `place` is in `rules.tfdeploy`, which `parts.tfdeploy` includes" in done.err
    assert command.read("parts.tfdeploy") == spec


@pytest.mark.full
def test_a_group_without_a_split_is_not_suggested(command: Command) -> None:
    """Clones on groups of which one device does everything are left out."""
    at_once = SPEC.replace("gpu = 2, cpu = 1", "cpu = 2").replace('  variables("logits/*") -> gpu[1]\n', "")
    command.write("small.tfdeploy", at_once.replace("gpu[*]", "cpu[*]"))
    done = command("suggest", "small.tfdeploy", "--groups", "2", "--write")
    assert done.code == 0
    assert "groups" not in done.out
