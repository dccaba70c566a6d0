"""Workers that each have all weights, and clones that compute layers again, do what one tower does."""

from __future__ import annotations

import pytest

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
QUICK = {
    ("masked", "add_n", "replicated"),
    ("statistics", "tree", "replicated"),
    ("float16", "ring", "replicated"),
    ("thin", "add_n", "replicated"),
    ("synchronized", "add_n", "replicated"),
    ("norms", "ring", SLOTS_SHARDED),
}
AGGREGATIONS = ("add_n", "tree", "hierarchical", "ring", "shuffle")


@pytest.mark.parametrize(
    ("name", "aggregate", "layout"),
    [
        pytest.param(name, each, layout, marks=[] if (name, each, layout) in QUICK else [pytest.mark.full])
        for layout in ("replicated", SLOTS_SHARDED)
        for name in SPECS
        for each in AGGREGATIONS
        if name != "thin" or layout == "replicated"
    ],
)
def test_all_workers_apply_the_sum_of_all(name: str, aggregate: str, layout: str) -> None:
    """With two and three workers, equal batches and others, one clone each and two."""
    cases = tuple(
        Case("sync", ir.Call(aggregate), layout, batches, pack, workers=workers, between=True)
        for workers, batches, pack in (
            (2, CLUSTERS[2][2], None),
            (3, CLUSTERS[3][2], 100),
        )
    )
    expect_agreement(name, *cases)


LOCAL = [each for each in SPECS if each not in {"synchronized", "float16", "cast", "thin"}]


@pytest.mark.parametrize(
    ("name", "aggregate"),
    [
        pytest.param(name, each, marks=[] if (name, each) == ("norms", "ring") else [pytest.mark.full])
        for name in LOCAL
        for each in AGGREGATIONS
    ],
)
def test_workers_average_what_their_clones_have_trained(name: str, aggregate: str) -> None:
    """After every other of five steps, with slots and without; the chief evaluates the mean of all clones."""
    expect_agreement(
        name,
        Case("local", ir.Call(aggregate), "replicated", CLUSTERS[2][2], None, False, 2, between=True),
        Case("local", ir.Call(aggregate), "replicated", CLUSTERS[3][2], 100, True, 3, between=True),
        steps=5,
    )


def expect_agreement(name: str, *cases: Case, steps: int = 3) -> None:
    """Expect combinations to compute what their reference does."""
    verification = Verification(spec_of(MODEL.format(**SPECS[name])), Options(steps=steps))
    verification.selected = SelectedCases(cases, ())
    found = list(verification.outcomes())
    assert len(found) == len(cases)
    for each in found:
        assert each.differences.largest <= verification.tolerance, each.case.title


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
def test_all_combinations_agree_with_one_that_keeps_all(name: str) -> None:
    """In every mode that there is, aggregation and placement, for two clones and three."""
    normalised, update = RECOMPUTED[name]
    if "recompute" not in update:
        update += ', recompute = scopes("block*")'
    spec = spec_of(CHAIN.format(normalised=normalised, update=update))
    verification = Verification(spec, Options(steps=2, quick=True))
    cases = verification.selected.cases
    found = [*verification.outcomes()]
    assert len(found) == len(cases) > 3
    assert {each.mode for each in cases} >= {"sync"}
    for each in found:
        assert each.differences.largest <= verification.tolerance, each.case.title
