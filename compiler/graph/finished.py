"""What was compiled to a step, in a graph that TensorFlow has: each tensor, op and variable by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import tensorflow as tf
from attrs import define, field

from compiler.graph.compiled import Clone, CompiledGraph, Evaluation, MetricTensors, TrainLoop
from compiler.graph.feeding import InputPipe
from compiler.graph.gradients.weighting import LossSum
from compiler.graph.variables.nodes import CutVariable, StepVariable
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.graph.workers.coordination import Coordination, Table
from compiler.graph.workers.exchange import WorkerExchange
from compiler.graph.workers.meeting import Meeting
from compiler.step.record import Run, Tensor
from compiler.step.sums.between import Inbox

_RECORDS = (
    *(Clone, CompiledGraph, Coordination, CutVariable, Evaluation, GraphVariable, Inbox, InputPipe),
    *(LossSum, Meeting, MetricTensors, Table, TrainLoop, VariablePart, WorkerExchange),
)
"""The records that hold tensors, ops or variables."""


def in_graph(compiled: CompiledGraph) -> CompiledGraph:
    """Return what was compiled to a step, in a graph that is made of it.

    Args:
        compiled: What `compile_step` has returned. What is in such a graph already is returned as it is.
    """
    if compiled.graph is not None:
        return compiled
    graph = compiled.ledger.finish()
    found: CompiledGraph = attrs.evolve(Finished(graph).of(compiled), graph=graph)
    graph.add_to_collection(tf.compat.v1.GraphKeys.GLOBAL_STEP, found.global_step)
    return found


@define
class Finished:
    """What values of a step are in a graph that has been made of it.

    Attributes:
        graph: The graph.
    """

    graph: tf.Graph
    _known: dict[int, tuple[Any, Any]] = field(factory=dict)  # by identity; the first keeps it alive

    def of(self, value: Any) -> Any:
        """Return what a value of the step is in the graph."""
        if isinstance(value, (tf.Tensor, tf.Operation, Tensor, Run)):
            return self.graph.as_graph_element(value.name)
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.of, value))
        if isinstance(value, Mapping):
            return {key: self.of(each) for key, each in value.items()}
        if id(value) not in self._known:
            if isinstance(value, StepVariable):
                self._known[id(value)] = (value, value.in_graph(self.graph))
            elif type(value) in _RECORDS:
                self._record(value)
            else:
                return value
        return self._known[id(value)][1]

    def _record(self, value: Any) -> None:
        """Make a record with all that it holds; parts of a variable hold the variable."""
        made = object.__new__(type(value))
        self._known[id(value)] = (value, made)
        for each in attrs.fields(type(value)):
            own = self.graph if each.type == "tf.Graph" else self.of(getattr(value, each.name))
            object.__setattr__(made, each.name, own)
