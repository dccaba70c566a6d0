"""Rows of gradients in a TensorFlow graph: summed where their numbers are equal."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.ledger import Ledger, SummedRows
from compiler.reasons import Placed
from compiler.step.record import Role, Rows
from compiler.step.rows import join_rows, merge_rows


def sum_equal_rows(ledger: Ledger, values: Sequence[Rows], scope: str, placed: Placed, role: Role) -> Rows:
    """Return the rows of all values with distinct numbers: those of equal numbers are added.

    Args:
        ledger: The ledger of the graph.
        values: The rows.
        scope: The scope of the ops, without a slash at its end.
        placed: Their place.
        role: What they are for.
    """
    writer = ledger.writer(role)
    joined = join_rows(writer, scope, values, placed)
    return merge_rows(writer, scope, joined, placed)


def unmerged(rows: tf.IndexedSlices, device: str) -> tf.IndexedSlices | None:
    """Return the rows of which `sum_equal_rows` has made `rows`, or None if they are made otherwise.

    A sum that is wanted as a whole tensor can be made of them at once, in the same order. The ops by which
    they were merged do not run then, unless something else needs them.

    Args:
        rows: Rows of a gradient.
        device: The device on which the rows must have been merged, so that no more of them are sent.
    """
    before = rows.before if isinstance(rows, SummedRows) else None
    return before() if before is not None and rows.values.device == device else None
