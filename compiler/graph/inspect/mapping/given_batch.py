"""The sizes that tensors of a step have for a given batch, if their shapes do not say it.

Look-ups in a table that is in pieces send distinct rows only, so that their bytes depend on the examples. One
step is run on a copy of the graph, in a session of its own, in which the examples are those of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from compiler.graph.inspect.devices.one_step import StepCopy, before_a_step
from compiler.graph.inspect.step.transfers import tensors_without_size
from compiler.plan import WorkerPlan

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.model.graph import InputNode


def sizes_for(compiled: CompiledGraph, batch: Mapping[str, Any]) -> dict[str, int]:
    """Return the bytes of what a step sends, by the names of the tensors whose shapes do not say it.

    The devices must exist, or be emulated.

    Args:
        compiled: The graph.
        batch: The examples of one step of all towers: an array for each input, along whose first axis they
            are in the order of the towers.

    Raises:
        ValueError: The batch lacks an input, or has too few examples, or each worker has a graph of its own.
    """
    if isinstance(compiled.plan, WorkerPlan):
        raise ValueError("a batch is for a graph with all towers, and each worker has a graph of its own")  # noqa: TRY004 of the graph
    tensors, batches = tensors_without_size(compiled), _batches(compiled, batch)
    with StepCopy.of(compiled) as copy:
        own = [copy.graph.as_graph_element(each.name) for each in tensors]
        with copy.graph.as_default():
            counts = [tf.size(each, out_type=tf.int64) for each in own]
        copy.run([compiled.init_op])
        for pipe, examples in zip(compiled.train_inputs, batches, strict=True):
            copy.start(pipe, examples)
        for fetches in before_a_step(compiled):
            copy.run(fetches)
        found = copy.session.run(counts)
    return {each.name: int(count) * each.dtype.size for each, count in zip(tensors, found, strict=True)}


def _batches(compiled: CompiledGraph, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the examples for each input pipe."""
    found, begin = [], 0
    for pipe in compiled.train_inputs:
        size = pipe.size or compiled.plan.towers[0].batch
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
