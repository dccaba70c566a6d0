"""First values are made by nodes that graphs of one plan share, unless they depend on the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import grammar
from compiler.graph.build import compile_graph
from compiler.graph.tower.traces import Traces
from compiler.pipeline import make_plan
from dsl import ir

OWN = """
import numpy as np
import tensorflow as tf

CALLS = []

def drawn(shape, dtype):
    CALLS.append("drawn")
    return tf.random.normal(shape, dtype=dtype)

def counted(shape, dtype):
    CALLS.append("counted")
    return tf.reshape(tf.range(shape[0] * shape[1], dtype=dtype), shape)

def large(shape, dtype):
    CALLS.append("large")
    return tf.constant(np.ones(shape), dtype)
"""

SPEC = """
tfdeploy = 1
model "m" {{
  x = input(float32, [{inputs}])
  y = input(float32, [{inputs}])
  z = x
    -> Dense({inputs}, kernel_initializer = python("own_values:{initializer}"), name = "one")
    -> Dense({inputs}, kernel_initializer = python("own_values:{initializer}"), name = "two")
  loss = [y, z] -> MeanSquaredError()
}}
devices {{
  cpu = 2
}}
clones {{
  batch = 4
}}
place {{
  clones -> cpu[*]
  variables -> cpu[1]
}}
update {{
  optimizer = SGD(1)
}}
train {{
  seed = 5
}}
"""


def spec_with(initializer: str, inputs: int) -> ir.Spec:
    """Return the spec of two layers whose kernels begin with what a function of the user's makes."""
    text = SPEC.format(inputs=inputs, initializer=initializer)
    found = grammar.read("test.tfdeploy", text=text, allow_python=True)
    assert found.spec is not None, [each.message for each in found.diagnostics]
    return found.spec


def first_values(compiled: Any) -> list[Any]:
    """Return the first values of both kernels."""
    with tf.compat.v1.Session(graph=compiled.graph) as session:
        session.run(compiled.init_op)
        return [np.array(session.run(compiled.variables[f"{each}/kernel"].kept)) for each in ("one", "two")]


@pytest.mark.parametrize(
    ("initializer", "inputs", "calls"), [("counted", 3, 0), ("drawn", 3, 2), ("large", 600, 2)]
)
def test_a_second_graph_of_a_plan_has_the_nodes_of_the_first(
    tmp_path: Path, initializer: str, inputs: int, calls: int
) -> None:
    """But for random numbers with a state, which are others for each weight, and for many numbers."""
    (tmp_path / "own_values.py").write_text(OWN)
    plan, traces = make_plan(spec_with(initializer, inputs)), Traces(str(tmp_path))
    first = compile_graph(plan, base=str(tmp_path), traces=traces)
    info = first.variables["one/kernel"].info
    made: list[str] = info.initializer.__wrapped__.__globals__["CALLS"]
    before = len(made)
    second = compile_graph(plan, base=str(tmp_path), traces=traces)
    assert len(made) - before == calls
    one, two = first_values(first)
    assert [each.tolist() for each in first_values(second)] == [one.tolist(), two.tolist()]
    assert (initializer == "drawn") == (one.tolist() != two.tolist())
