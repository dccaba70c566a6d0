"""Combinations are compared with references that they can agree with, in the order of the table."""

from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.compiled import CompiledGraph
from compiler.graph.tower.traces import Traces
from dsl import ir
from dsl.diagnostics import RunError
from tests.support import spec_of
from tfdeploy.runtime.verify.cases import GLOBAL_BATCH, SLOTS_SHARDED, Case
from tfdeploy.runtime.verify.compare import train_case
from tfdeploy.runtime.verify.session import (
    THREADED_UPDATES,
    Options,
    Verification,
    place_in_table,
)
from tfdeploy.runtime.verify.trial import LocatedSession, Trial, TrialSetup, make_trial

SPEC = """
tfdeploy = 1

model "small" {{
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(3, name = "hidden") {between} -> Dense(2, name = "logits")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true{loss})
}}

devices {{ cpu = 1 }}
clones {{ batch = 4 }}
update {{ optimizer = Momentum(0.1, momentum = 0.9){update} }}
train {{ seed = 7 }}
"""
PLAIN = {"between": "", "loss": "", "update": ""}
STEPS = 3

ADD = ir.Call("add_n")
SYNC = Case("sync", ADD, "shared", (12, 12))
LOCAL, ASYNC = evolve(SYNC, mode="local"), evolve(SYNC, mode="async")
WORKERS = evolve(ASYNC, batches=(6, 6, 6, 6), workers=2, between=True)
UNEQUAL = (15, 9)
TOGETHER = (evolve(SYNC, batches=(24,)), evolve(SYNC, batches=UNEQUAL))
ALONE = (ASYNC, evolve(ASYNC, batches=UNEQUAL), WORKERS)
COPIES = (LOCAL, evolve(LOCAL, batches=UNEQUAL), evolve(LOCAL, average_slots=True))


@cache
def verification_of(**changes: str) -> Verification:
    """Return the verification of a spec on examples that are made up."""
    return Verification(spec_of(SPEC.format(**PLAIN | changes)), Options(steps=STEPS, synthetic=True))


NORMALIZED = {"between": "-> BatchNormalization()"}
FIRST, MEAN = (NORMALIZED | {"update": f", batch_norm = {each}"} for each in ("first", "mean"))


@pytest.mark.parametrize(
    ("changes", "cases", "depends"),
    [
        ({}, TOGETHER, False),
        ({}, ALONE, False),
        ({}, COPIES, False),
        (MEAN, TOGETHER, True),
        (MEAN, COPIES[1:2], True),
        (FIRST, (ALONE[1], COPIES[0]), True),
        ({"update": ", reduce = sum"}, TOGETHER[1:], True),
        ({"loss": ", ignore_class = 1"}, COPIES[1:2], False),
        ({"update": ", accumulate = 2"}, (TOGETHER[1], COPIES[1]), False),
        ({"update": ", ema = 0.9"}, TOGETHER[1:], False),
    ],
)
def test_each_case_has_a_reference_that_it_can_agree_with(
    changes: dict[str, str], cases: tuple[Case, ...], *, depends: bool
) -> None:
    """One tower, or the same clones if a step depends on how its batch is cut, or towers that go alone."""
    run = verification_of(**changes)
    assert run.depends_on_clones is depends
    run.selected = evolve(run.selected, cases=cases)
    found = list(run.outcomes())
    assert len(found) == len(cases)
    differences = {each.case.title: each.differences for each in found}
    assert {case: each for case, each in differences.items() if each.largest > 1e-5 or each.rounded} == {}


@pytest.mark.parametrize(
    ("case", "losses"), [(SYNC, STEPS), (ASYNC, 2 * STEPS), (WORKERS, 2 * STEPS), (LOCAL, STEPS)]
)
def test_all_clones_make_each_step_together_or_every_clone_as_many(case: Case, losses: int) -> None:
    """What disturbs a training comes after its first step."""
    run, counted = verification_of(), list[int]()
    with make_trial(run.setup, case.apply(run.spec)) as trial:
        course = train_case(trial, case, STEPS, lambda: counted.append(int(trial.values()["global_step"])))
    assert len(course.losses) == losses
    assert course.values["global_step"] == losses
    assert counted == [1]


def test_cases_are_in_the_order_of_the_table() -> None:
    """By mode, aggregation with its settings, and placement."""
    sized = ir.Call("hierarchical", (), {"size": 3})
    cases = [
        LOCAL,
        ASYNC,
        evolve(SYNC, aggregate=sized),
        evolve(SYNC, aggregate=ir.Call("hierarchical"), variables="spread"),
        evolve(SYNC, aggregate=ir.Call("hierarchical")),
        evolve(SYNC, variables=SLOTS_SHARDED),
        evolve(SYNC, variables="spread"),
        SYNC,
    ]
    found = sorted(cases, key=place_in_table)
    assert [(each.mode, each.aggregation, each.variables) for each in found] == [
        ("sync", "add_n", "shared"),
        ("sync", "add_n", "spread"),
        ("sync", "add_n", SLOTS_SHARDED),
        ("sync", "hierarchical", "shared"),
        ("sync", "hierarchical", "spread"),
        ("sync", "hierarchical(size = 3)", "shared"),
        ("async", "add_n", "shared"),
        ("local", "add_n", "shared"),
    ]


@frozen
class Idle(TrialSetup):
    """A setup whose graphs have clones that make no update if they are asked for one alone."""

    def compile(self, spec: ir.Spec, worker: int = 0) -> CompiledGraph:
        """Return a graph in which such an update is the loss alone."""
        compiled = TrialSetup.compile(self, spec, worker)
        idle = (evolve(each, train_op=each.data_loss.op) for each in compiled.train_loops)
        return evolve(compiled, train_loops=tuple(idle))


def test_clones_of_a_process_also_update_at_the_same_time() -> None:
    """Each of these updates must count. Those of workers are counted where they claim them."""
    run = Verification(spec_of(SPEC.format(**PLAIN)), Options(steps=STEPS, synthetic=True))
    run.setup = Idle(run.setup.traces, run.setup.seed, run.setup.arrays, run.setup.start)
    run.selected = evolve(run.selected, cases=(ASYNC, WORKERS))
    threads, claimed = (each.differences for each in run.outcomes())
    assert threads.largest == float("inf")
    assert threads.worst == f"global_step counts 0 of {2 * THREADED_UPDATES} updates"
    assert claimed.largest < 1e-5


TWO = """
tfdeploy = 1
model "two" {
  x = input(float32, [4])
  label = input(int32, [])
  tags = input(int32, [])
  y = x -> Dense(2)
  z = x -> Dense(5)
  loss = (
    ([label, y] -> SparseCategoricalCrossentropy(from_logits = true))
    + ([tags, z] -> SparseCategoricalCrossentropy(from_logits = true))
  )
}
update { optimizer = SGD(0.1), accumulate = 2 }
"""


def test_made_up_examples_are_those_of_all_steps() -> None:
    """Of all micro-batches; there are as many classes as the output has that is compared with them."""
    found = Verification(spec_of(TWO), Options(steps=STEPS, synthetic=True)).setup.arrays
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(
        ("x", "label", "tags"), GLOBAL_BATCH * 2 * STEPS
    )
    assert ({*found["label"]}, {*found["tags"]}) == ({0, 1}, {0, 1, 2, 3, 4})


def test_a_label_that_the_model_does_not_know_is_named_with_the_loss() -> None:
    """The op is one of the loss, to which the message points."""
    arrays = {"x": np.ones((4, 4), np.float32), "label": np.array([0, 1, 2, 3], np.int32)}
    with Trial(TrialSetup(Traces(), 1, arrays), spec_of(SPEC.format(**PLAIN))) as trial:
        with pytest.raises(
            RunError, match="a combination failed, in clone 0: Received a label value"
        ) as caught:
            trial.step()
        found = caught.value.diagnostic
        assert found.code == "TFD738"
        assert found.span.source.text[found.span.start : found.span.end].startswith("[label, y] ->")


def test_the_error_of_a_server_that_was_lost_is_left_to_others() -> None:
    """Variables that are gone mean that. In this process, no task can be lost."""
    compiled = TrialSetup(Traces(), 1, {}).compile(spec_of(SPEC.format(**PLAIN)))
    with tf.compat.v1.Session(graph=compiled.graph) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            LocatedSession(session, compiled, lambda: False).run(compiled.data_loss)
        with pytest.raises(RunError, match="a combination failed"):
            LocatedSession(session, compiled).run(compiled.data_loss)
