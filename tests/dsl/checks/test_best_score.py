"""`best` and `patience` are checked before anything runs."""

from __future__ import annotations

import pytest

import grammar

SPEC = """
tfdeploy = 1
model "m" {
  x = input(float32, [2])
  y = input(float32, [1])
  out = x -> Dense(1)
  loss = [y, out] -> MeanSquaredError()
  metrics { error = [y, out] -> MeanAbsoluteError() }
}
data { %s }
train { %s }
"""
BOTH = 'train = csv("a.csv", x = "x*", y = "y"), test = csv("b.csv", x = "x*", y = "y")'
ONE = 'train = csv("a.csv", x = "x*", y = "y")'


@pytest.mark.parametrize(
    ("data", "train", "messages"),
    [
        (BOTH, 'steps = 4, evaluate_every = 1, best = lowest("error"), patience = 2', []),
        (BOTH, 'steps = 4, evaluate_every = 1, best = lowest("loss")', []),
        (BOTH, 'steps = 4, evaluate_every = 1, best = lowest("eror")', ["nothing is called `eror` here"]),
        (BOTH, 'steps = 4, best = lowest("loss")', ["`train` lacks `evaluate_every`"]),
        (ONE, 'steps = 4, evaluate_every = 1, best = lowest("loss")', ["`data` lacks `validation`"]),
        (BOTH, "steps = 4, patience = 2", ["`train` lacks `best`"]),
        (BOTH, "steps = 4, best = most(1)", ["there is no goal `most`"]),
    ],
)
def test_what_best_needs(data: str, train: str, messages: list[str]) -> None:
    """The score must be there, evaluations must happen on data that is there, and patience needs a best."""
    found = grammar.read("spec.tfdeploy", text=SPEC % (data, train)).diagnostics
    assert [each.message for each in found] == messages
