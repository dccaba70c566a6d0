"""Make the placement map of a compiled graph, for a given batch of examples if sizes depend on them.

Look-ups in a table that is in pieces send distinct rows only, so that their bytes depend on the examples. One
step is run on a copy of the graph, in a session of its own, in which the examples are those of the batch.

If each worker has a graph of its own, the copy is that of the graph at hand, and makes the step of each
worker in turn, with its part of the batch. What another worker would put into its mailboxes is moved there.
So the chief, whose turn is the last, takes what all workers have put there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.one_step import StepCopy
from compiler.mapping.records import MapTime, MapTransfer, PlacementMap
from compiler.model.graph import InputNode
from compiler.plan import WorkerPlan
from compiler.step.mailboxes import sent_rows
from compiler.step.read.map import Found, map_step
from compiler.step.read.memory import StepMemory
from compiler.step.read.transfers import sent_tensors


def map_placement(
    compiled: CompiledGraph,
    assigned: Mapping[str, str] | None = None,
    memory: Mapping[str, StepMemory] | None = None,
    time: MapTime | None = None,
    *,
    batch: Mapping[str, Any] | None = None,
    sent: tuple[MapTransfer, ...] | None = None,
) -> PlacementMap:
    """Return the placement map of a compiled graph.

    Args:
        assigned: The full name of the device on which each op ran, by op name, as `read_assigned` returns it.
            Ops that it lacks have no `assigned` device in the map.
        memory: The peak of a step by the device's name in specs, as `forecast_memory` returns it.
            Without it the map has no memory of a step.
        batch: The examples of a step of all towers, an array for each input. A step is run on a copy of the
            graph, and transfers have the bytes of this step, also of rows that are looked up in tables in
            pieces. If each worker has a graph of its own, the steps of all workers are run on that copy.
        sent: The transfers of the map, if they are already known; by default they are those of a step of all
            workers.
    """
    sizes = None if batch is None else sizes_for(compiled, batch)
    sized = compiled.sized_step if batch is None else None
    found = Found(assigned or {}, memory or {}, time, sizes, sent, sized)
    return map_step(compiled.step, tf.__version__, found)


Sizes = Mapping[str, int]
"""The bytes of tensors by name."""


def sizes_for(compiled: CompiledGraph, batch: Mapping[str, Any]) -> tuple[Sizes, ...]:
    """Return the bytes of what a step sends, of the tensors whose shapes do not say it.

    The devices must exist, or be emulated.

    Returns:
        For each worker with a graph of its own what it sends in its step, else what all towers send, as the
        only one.

    Raises:
        ValueError: The batch lacks an input, or has too few examples, or a worker whose graph is not at hand
            takes batches of other sizes.
    """
    plan = compiled.plan
    own, count = (plan.worker.index, plan.worker.count) if isinstance(plan, WorkerPlan) else (0, 1)
    _require_equal_batches(compiled)
    parts = [_examples_of(compiled, batch, number) for number in range(count)]
    tensors = _without_size(compiled)
    found: dict[int, Sizes] = {}
    with StepCopy.of(compiled) as copy:
        names = [copy.graph.as_graph_element(each.name) for each in tensors]
        with copy.graph.as_default():
            counts = [tf.size(each, out_type=tf.int64) for each in names]
            forward = [_forward_rows(compiled, copy.graph, own, number) for number in range(count)]
        _begin(copy)
        for number in sorted(range(count), key=lambda each: each == own):
            _put(copy, parts[number])
            copy.session.run(forward[number])
            elements = copy.session.run(counts)
            found[number] = {
                each.name: int(size) * each.dtype.size for each, size in zip(tensors, elements, strict=True)
            }
    return tuple(found[number] for number in range(count))


def _without_size(compiled: CompiledGraph) -> list[tf.Tensor]:
    """Return the tensors that a step sends whose shapes depend on the examples, without those of strings."""
    names = [each.name for each in sent_tensors(compiled.step) if each.dtype != "string"]
    sent = map(compiled.graph.get_tensor_by_name, names)
    return [each for each in sent if not each.shape.is_fully_defined()]


def _begin(copy: StepCopy) -> None:
    """Initialise the variables of a copy, and let its worker, if it is that of one, begin."""
    copy.run([copy.compiled.init_op])
    exchange = copy.compiled.exchange
    if exchange is not None and exchange.coordination is not None:
        copy.run([exchange.coordination.open])
        copy.run([exchange.clear])


def _put(copy: StepCopy, parts: Sequence[Mapping[str, Any]]) -> None:
    """Let the inputs of a copy give their parts of a batch, and its worker fill its mailboxes."""
    for pipe, examples in zip(copy.compiled.train_inputs, parts, strict=True):
        copy.start(pipe, examples)
    if copy.compiled.exchange is not None:
        copy.run([copy.compiled.exchange.post])


def _require_equal_batches(compiled: CompiledGraph) -> None:
    """Raise ValueError if another worker takes batches of other sizes than the one whose graph is at hand."""
    plan = compiled.plan
    if not isinstance(plan, WorkerPlan):
        return
    worker = plan.worker
    own = [each.batch for each in plan.towers]
    for number, towers in enumerate(worker.everyone):
        sizes = [each.batch for each in towers]
        if sizes != own:
            raise ValueError(
                f"the graph of {worker.task(worker.index)} takes batches of {own}, and {worker.task(number)} "
                f"has a graph of its own for batches of {sizes}, for which this one cannot stand"
            )


def _examples_of(compiled: CompiledGraph, batch: Mapping[str, Any], worker: int) -> list[dict[str, Any]]:
    plan = compiled.plan
    sizes = [pipe.size or plan.towers[0].batch for pipe in compiled.train_inputs]
    found, begin = [], worker * sum(sizes)
    for pipe, size in zip(compiled.train_inputs, sizes, strict=True):
        found.append({each.name: _part(each, batch, begin, size) for each in pipe.wanted})
        begin += size
    return found


def _part(wanted: InputNode, batch: Mapping[str, Any], begin: int, size: int) -> Any:
    if wanted.name not in batch:
        raise ValueError(f"the batch has no array for the input {wanted.name!r}")
    array = np.asarray(batch[wanted.name])
    if len(array) < begin + size:
        raise ValueError(
            f"a step takes {begin + size} examples or more, and {wanted.name!r} has {len(array)}"
        )
    return array[begin : begin + size].astype(tf.as_dtype(wanted.dtype).as_numpy_dtype)


def _forward_rows(compiled: CompiledGraph, graph: tf.Graph, source: int, target: int) -> list[tf.Operation]:
    """Add ops that copy rows from the boxes of a worker into those of another one, and return them.

    Args:
        graph: A copy of it. Boxes that it has of one of the workers only are left alone.
        target: The number of the other one; nothing is copied to the worker itself.
    """
    copies = []
    for boxes in sent_rows(compiled.exchange.boxes if compiled.exchange is not None else ()):
        if source != target and source in boxes and target in boxes:
            mine, other = (graph.get_tensor_by_name(boxes[each].name) for each in (source, target))
            rows = tf.raw_ops.ReadVariableOp(resource=mine, dtype=mine.op.get_attr("dtype"))
            copies.append(tf.raw_ops.AssignVariableOp(resource=other, value=rows))
    return copies
