"""Check that no tensor of a clone has more numbers than TensorFlow can count."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.model.elaborate import elaborate
from compiler.model.known_shapes import known_shapes
from compiler.topology import Topology
from compiler.towers import batches, clone_count
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors
from dsl.source import Span

MOST = 2**31 - 1
"""The most numbers of one tensor: many of TensorFlow's kernels count in 32 bits."""


def tensors_can_be_held(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report the first tensor of a clone's batch that is too large, if its shape is known without Keras.

    The batches have been checked before, so that each clone has a whole number of examples.
    """
    clones = spec.clones
    largest = max(batches(clones, clone_count(spec, topology), spec.update.accumulate), default=1)
    for name, shape, span in _tensors(spec):
        size = prod(shape)
        if size > MOST:
            yield errors.tensor_too_large(span, name=name, shape=shape, most=MOST)
            return
        if max(size, 1) * largest > MOST:
            given = clones.span_of("batch" if clones.batch is not None else "global_batch")
            yield errors.batch_too_large(
                given or clones.span, batch=largest, name=name, most=MOST, whole=(largest, *shape)
            )
            return


def _tensors(spec: ir.Spec) -> Iterator[tuple[str, tuple[int, ...], Span | None]]:
    """Yield the name, the shape without the batch and the place of each tensor whose shape is known."""
    try:
        graph = elaborate(spec)
    except SpecError:
        return  # the check of shapes reports it
    known = known_shapes(graph)
    for each in graph.inputs:
        yield each.name, each.assumed_shape, each.span
    for call in graph.calls:
        if call.values[0] in known.misfits:
            return  # the check of shapes reports it
        shape = known.values[call.values[0]]
        sizes = tuple(each for each in shape or () if each is not None)
        if shape is not None and len(sizes) == len(shape) and call.values[0] not in graph.of_weights:
            yield graph.layers[call.layer].call.name, sizes, call.span
