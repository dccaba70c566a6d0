"""Workers that each have all weights, and clones that compute layers again, do what one tower does."""

from functools import cache

import pytest
from attrs import evolve

from dsl import ir
from tests.support import spec_of
from tfdeploy.runtime.verify.cases import CLUSTERS, SLOTS_SHARDED, Case, SelectedCases
from tfdeploy.runtime.verify.session import Options, Verification

MODEL = """
tfdeploy = 1

model "small" {{
  word = input(int32, [5])
  image = input(float32, [6])
  digit = input(int32, [])
  rows = word -> Embedding(30, 8, name = "table", {mask}) -> GlobalAveragePooling1D(name = "rows")
  hidden = image -> Dense(8, name = "hidden") {between} -> Activation("relu")
  logits = [rows, hidden] -> Concatenate() -> Dense(4, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true{loss})
  metrics {{ accuracy = [digit, logits] -> SparseCategoricalAccuracy() }}
}}

data {{
  train = synthetic(
    256, word = feature(int32, [5], classes = 30), image = feature(float32, [6]),
    digit = feature(int32, classes = 4)
  )
}}

{devices}
update {{ {update} }}
train {{ seed = 3 }}
"""
WORKERS = 'devices { job "worker" { tasks = 2 } }'
PLAIN = {
    "devices": "",
    "mask": "mask_zero = true",
    "between": "",
    "loss": "",
    "update": "optimizer = Adam(0.01)",
}
SPECS = {
    "plain": PLAIN,
    "masked": {**PLAIN, "loss": ", ignore_class = 2", "update": "optimizer = Momentum(0.1, momentum = 0.9)"},
    "summed": {**PLAIN, "loss": ", ignore_class = 2", "update": "optimizer = SGD(0.01), reduce = sum"},
    "statistics": {
        **PLAIN,
        "between": "-> BatchNormalization()",
        "update": "optimizer = SGD(0.1), batch_norm = mean",
    },
    "first": {
        **PLAIN,
        "between": "-> BatchNormalization()",
        "update": "optimizer = SGD(0.1), batch_norm = first",
    },
    "synchronized": {
        **PLAIN,
        "between": "-> BatchNormalization()",
        "update": "optimizer = SGD(0.1), batch_norm = synchronized",
    },
    "float16": {**PLAIN, "update": "optimizer = SGD(0.1), precision = mixed_float16"},
    "accumulated": {
        **PLAIN,
        "update": "optimizer = Adam(0.01), accumulate = 2, clip = global_norm(0.5), ema = 0.9",
    },
    "norms": {
        **PLAIN,
        "between": "-> Dense(8, kernel_constraint = MaxNorm(0.5), kernel_regularizer = L2(0.01))",
        "loss": ", ignore_class = 2",
        "update": "optimizer = Adam(0.01), clip = norm(0.05), ema = 0.9",
    },
    "cast": {**PLAIN, "devices": WORKERS, "update": "optimizer = SGD(0.1), compress = bfloat16"},
    "thin": {
        **PLAIN,
        "devices": WORKERS,
        "loss": ", ignore_class = 2",
        "update": "optimizer = Momentum(0.1, momentum = 0.9), compress = power_sgd(rank = 1), accumulate = 2",
    },
}
AGGREGATIONS = ("add_n", "tree", "hierarchical", "ring", "shuffle")
QUICK = {("synchronized", "tree"), ("float16", "ring"), ("thin", "add_n"), ("norms", "ring")}


@pytest.mark.parametrize(
    ("place", "name", "aggregate"),
    [
        pytest.param(first + at, name, each, marks=[] if (name, each) in QUICK else [pytest.mark.full])
        for first, name in enumerate(SPECS)
        for at, each in enumerate(AGGREGATIONS)
    ],
)
def test_all_workers_apply_the_sum_of_all(place: int, name: str, aggregate: str) -> None:
    """With two or three workers, unequal batches and two clones each; any two of the choices meet."""
    cut = place % 2 and name != "thin"
    workers = 2 + (place + AGGREGATIONS.index(aggregate)) // 2 % 2
    expect_agreement(name, sums(aggregate, workers, SLOTS_SHARDED if cut else "replicated"))


LOCAL = [each for each in SPECS if each not in {"synchronized", "float16", "cast", "thin"}]


@pytest.mark.parametrize(
    ("place", "name", "aggregate"),
    [
        pytest.param(
            first + at, name, each, marks=[] if (name, each) == ("norms", "ring") else [pytest.mark.full]
        )
        for first, name in enumerate(LOCAL)
        for at, each in enumerate(AGGREGATIONS)
    ],
)
def test_workers_average_what_their_clones_have_trained(place: int, name: str, aggregate: str) -> None:
    """After every other of five steps, with slots or without; the chief evaluates the mean of all clones."""
    workers = 2 + place % 2
    summed = sums(aggregate, workers, "replicated")
    expect_agreement(name, evolve(summed, mode="local", average_slots=workers == 3), steps=5)


@pytest.mark.parametrize(
    ("layout", "workers"), [("spread", 2), pytest.param("sharded", 3, marks=pytest.mark.full)]
)
def test_the_chief_applies_what_others_have_left_with_fewer_bits(layout: str, workers: int) -> None:
    """Rows of a table, and tensors alone and together; the sum of what is left has all bits."""
    expect_agreement("cast", evolve(sums("add_n", workers, layout), pack=None))


def sums(aggregate: str, workers: int, layout: str) -> Case:
    """Return a combination of workers with a graph each; the gradients of three are packed."""
    batches, pack = CLUSTERS[workers][2], 100 if workers == 3 else None
    return Case("sync", ir.Call(aggregate), layout, batches, pack, workers=workers, between=True)


@cache
def verification_of(name: str, steps: int) -> Verification:
    """Return a verification, which keeps the references of all combinations."""
    return Verification(spec_of(MODEL.format(**SPECS[name])), Options(steps=steps))


def expect_agreement(name: str, case: Case, steps: int = 3) -> None:
    """Expect a combination to compute what its reference does."""
    verification = verification_of(name, steps)
    verification.selected = SelectedCases((case,), ())
    (found,) = verification.outcomes()
    assert found.differences.largest <= verification.tolerance, case.title


CHAIN = """
tfdeploy = 1
layer "block" {{
  x = input()
  inner = x -> Conv2D(6, 3, padding = same, use_bias = false) {normalised} -> Activation(gelu)
    -> Conv2D(3, 3, padding = same)
  output = [x, inner] -> Add()
}}
model "small" {{
  image = input(float32, [4, 4, 3])
  digit = input(int32, [])
  logits = image -> repeat(3, block()) -> Flatten() -> Dense(4)
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  regularize = L2(0.01)
}}
data {{
  train = synthetic(256, image = feature(float32, [4, 4, 3]), digit = feature(int32, classes = 4))
}}
update {{ {update} }}
train {{ seed = 3 }}
"""
NORMALISED = "-> BatchNormalization()"
RECOMPUTED = {
    "scopes": ("-> LayerNormalization()", 'optimizer = Adam(0.01), recompute = scopes("block*")'),
    "memory": ("", "optimizer = Momentum(0.1, momentum = 0.9), recompute = memory(1KB)"),
    "synchronized": (NORMALISED, "optimizer = SGD(0.1), batch_norm = synchronized"),
    "mean": (NORMALISED, "optimizer = SGD(0.1), batch_norm = mean, ema = 0.9"),
    "accumulated": ("", "optimizer = Adam(0.01), accumulate = 2, clip = global_norm(0.5)"),
    "float16": ("", "optimizer = SGD(0.1), precision = mixed_float16"),
    "bfloat16": ("", "optimizer = SGD(0.1), precision = mixed_bfloat16, reduce = sum"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", RECOMPUTED)
def test_combinations_agree_with_one_that_keeps_all(name: str) -> None:
    """By turns a third of what verify chooses of modes, aggregations and placements."""
    normalised, update = RECOMPUTED[name]
    if "recompute" not in update:
        update += ', recompute = scopes("block*")'
    spec = spec_of(CHAIN.format(normalised=normalised, update=update))
    verification = Verification(spec, Options(steps=2, quick=True))
    cases = verification.selected.cases[[*RECOMPUTED].index(name) % 3 :: 3]
    verification.selected = SelectedCases(cases, ())
    found = [*verification.outcomes()]
    assert len(found) == len(cases) > 2
    assert {each.mode for each in cases} >= {"sync"}
    for each in found:
        assert each.differences.largest <= verification.tolerance, each.case.title
