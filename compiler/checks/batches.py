"""Check that the examples of a step can be divided among the clones."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.topology import Topology
from compiler.towers import clone_count
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors


def batches_fit_clones(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report a global batch that the clones do not divide, or a list with another number of batches.

    Args:
        spec: The spec, as read and checked without devices.
        topology: The devices of the spec, which give the number of clones if the spec does not.
    """
    clones, count = spec.clones, clone_count(spec, topology)
    if isinstance(clones.batch, tuple) and len(clones.batch) != count:
        yield errors.batch_list_length(clones.span_of("batch"), given=len(clones.batch), clones=count)
    if clones.batch is None and clones.global_batch is not None:
        rounds = spec.update.accumulate
        if clones.global_batch % (count * rounds):
            yield errors.uneven_batch(clones.global_batch, count, clones.span_of("global_batch"), rounds)
