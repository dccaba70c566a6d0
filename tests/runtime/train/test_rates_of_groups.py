"""Groups of weights with optimizers of their own: each learning rate is recorded by the glob of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tensorflow as tf

from tfdeploy.runtime.show.runs import read_curves

if TYPE_CHECKING:
    from tests.runtime.conftest import Project

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
