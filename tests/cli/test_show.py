"""`tfdeploy show`: a spec with everything filled in, and its IR as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import grammar
from tests.support import ir_of

if TYPE_CHECKING:
    from tests.cli.conftest import Command

SPEC = """\
tfdeploy = 1
include = ["parts/model.tfdeploy"]

let {
  towers = 2
  rate = 1 / 4
}

devices { cpu = towers }
clones { count = towers, batch = 8 }
update { optimizer = SGD(rate) }
"""
MODEL = """\
model "m" {
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(2)
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}
"""
SHOWN = """\
tfdeploy = 1

model "m" {
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(2)
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices {
  cpu = 4
  gpu_memory = none
  cpu_memory = none
  link = none
  kind = none
  soft_placement = false
  allow_growth = true
  log_placement = false
  intra_op_threads = none
  inter_op_threads = none
}

clones {
  count = 4
  batch = 8
}

update {
  mode = sync
  optimizer = SGD(0.25)
  reduce = mean
  aggregate = add_n
  pack = none
  compress = none
  clip = none
  accumulate = 1
  schedule = none
  recompute = none
  ema = none
  batch_norm = first
  precision = float32
  backup = 0
  staleness = none
  average_slots = false
}

train {
  keep = 5
  log_every = 10
  summaries = scalars
  track = none
  prometheus = none
  seed = none
  deterministic = false
  weights = none
  best = none
  patience = none
  task_timeout = 10min
}
"""


def test_includes_constants_overrides_and_defaults_are_filled_in(command: Command) -> None:
    """What is shown stands alone and says all that holds."""
    command.write("spec.tfdeploy", SPEC)
    command.write("parts/model.tfdeploy", MODEL)
    done = command("show", "spec.tfdeploy", "--set", "let.towers=4")
    assert (done.code, done.out, done.err) == (0, SHOWN, "")
    again = command("show", command.write("shown.tfdeploy", done.out).name)
    assert again.out == SHOWN
    assert command("check", "shown.tfdeploy").code == 0
    assert command("fmt", "--check", "shown.tfdeploy").code == 0


def test_json_is_the_ir(command: Command) -> None:
    """`--json` prints the IR with its format version, from which an equal IR is made."""
    path = command.write("spec.tfdeploy", SPEC)
    command.write("parts/model.tfdeploy", MODEL)
    done = command("show", "spec.tfdeploy", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["format_version"] == "1.0"
    assert ir_of(done.out) == grammar.load(str(path))


def test_errors_are_shown_and_nothing_else(command: Command) -> None:
    """A spec with errors is not shown; its errors are, and the exit code is 1."""
    done = command("show", "good.tfdeploy", "--set", "clones.count=0")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[TFD305]")


def test_warnings_go_to_standard_error(command: Command) -> None:
    """Warnings do not keep a spec from being shown."""
    command.write("loose.tfdeploy", 'model "m" {\n  x = input(float32, [4])\n  output = x\n}\n')
    done = command("show", "loose.tfdeploy")
    assert done.code == 0
    assert done.out.startswith("tfdeploy = 1\n")
    assert done.err.startswith("warning[TFD206]")
