"""Towers whose statistics are discarded do not compute them, and lose nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.tower.template import Gradient, LossPart, MomentExchange, Template
from compiler.graph.tower.traces import only_first_keeps_statistics
from compiler.pipeline import make_plan
from compiler.step.record import Fragment
from tests.support import classifier


def template() -> Template:
    """Return a tower with a node for each result, which has an input of its own, and two for a statistic."""
    graph = tf.compat.v1.GraphDef()
    inputs: dict[str, list[str]] = {
        "x": [],
        "seed": [],
        "scale": [],
        "inverse": [],
        "mean": [],
        "kernel": [],
        "inner": ["kernel"],
        "out": ["x", "^inner"],
        "loss": ["out:0"],
        "weight": ["x"],
        "gradient": ["loss"],
        "indices": ["x"],
        "state": ["out"],
        "moment": ["x"],
        "received": [],
        "back": ["received"],
        "returned": [],
        "moved": ["mean", "out"],
        "new_mean": ["moved"],
    }
    for name, given in inputs.items():
        graph.node.add(name=name, op="Op").input.extend(given)
    graph.library.function.add().signature.name = "loop"
    graph.versions.producer = 7
    part = LossPart("loss", "weight", {"kernel": Gradient("gradient:1", "indices")})
    exchange = MomentExchange(
        "norm", ("moment",), ("received",), "float32", (), [("back",)], [("returned", None)]
    )
    return Template(
        fragment=Fragment(graph),
        weights={"norm/mean": "mean", "kernel": "kernel"},
        inputs={"x": "x"},
        seed="seed",
        scale="scale",
        inverse_share="inverse",
        roles={},
        follows={},
        outputs=("out",),
        losses=(part,),
        state_updates={"norm/mean": "new_mean"},
        metric_states={"accuracy": ("state",)},
        exchanges=(exchange,),
    )


@pytest.mark.parametrize(
    ("overrides", "only_first"),
    [
        ({}, True),
        ({"update__batch_norm": "mean"}, False),
        ({"update__accumulate": "2"}, False),
        ({"update__mode": "async"}, False),
    ],
)
def test_statistics_are_discarded_if_those_of_clone_0_are_kept(overrides: Any, *, only_first: bool) -> None:
    """Each micro-batch starts from those of the one before, and each clone of other modes has its own."""
    assert only_first_keeps_statistics(make_plan(classifier(**overrides))) == only_first
