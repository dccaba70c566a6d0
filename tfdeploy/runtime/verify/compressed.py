"""The reference of trainings whose gradients are sent with fewer bits: the compressions, in NumPy.

Clones with shared variables compute their gradients in a first run of each step. What workers would send of
these is compressed here, and the sums are given to a second run in place of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.workers.power_sgd import NAME, first_columns, is_worth_it, rank_of
from compiler.step.sums.compress import CASTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from compiler.graph.compiled import CompiledGraph
    from dsl import ir

Array = np.ndarray[Any, Any]


@frozen
class Cast:
    """Every value has fewer bits while it is sent, also the sum."""

    dtype: Any

    def total(self, name: str, values: Sequence[Array]) -> Array:
        """Return the sum of the gradients of workers."""
        del name
        return self.sent(np.sum([self.sent(each) for each in values], axis=0))

    def sent(self, value: Array) -> Array:
        """Return a value as those have it that receive it."""
        return value.astype(self.dtype).astype(value.dtype)

    def state(self) -> dict[str, Array]:
        """Return what is kept from step to step, by its name in checkpoints."""
        return {}


@define
class PowerSGD:
    """Algorithm 1 of Vogels et al., 2019 (arXiv 1905.13727), for gradients whose columns are the last axis.

    Attributes:
        rank: The columns of the two matrices that are sent.
        columns: The matrix with which the next step begins, by the name of the gradient.
        lacking: What each worker has not sent yet of the gradient.
    """

    rank: int
    columns: dict[str, Array] = field(factory=dict)
    lacking: dict[str, list[Array]] = field(factory=dict)

    def total(self, name: str, values: Sequence[Array]) -> Array:
        """Return what workers make of the sum of their gradients."""
        shape = values[0].shape
        if values[0].dtype != np.float32 or not is_worth_it(shape, self.rank):
            return np.asarray(np.sum(values, axis=0))
        whole = [each.reshape(-1, shape[-1]) for each in values]
        if name not in self.columns:
            self.columns[name] = first_columns(name, shape, self.rank)
            self.lacking[name] = [np.zeros_like(each) for each in whole]
        whole = [each + lacking for each, lacking in zip(whole, self.lacking[name], strict=True)]
        left, upper = np.linalg.qr(np.sum([each @ self.columns[name] for each in whole], axis=0))
        left = left * np.where(np.diag(upper) < 0, -1.0, 1.0).astype(np.float32)
        right = [each.T @ left for each in whole]
        self.lacking[name] = [each - left @ own.T for each, own in zip(whole, right, strict=True)]
        self.columns[name] = np.sum(right, axis=0)
        return np.asarray((left @ self.columns[name].T).reshape(shape))

    def sent(self, value: Array) -> Array:
        """Return the rows of a table, which are sent as they are."""
        return value

    def state(self) -> dict[str, Array]:
        """Return what is kept from step to step, by its name in checkpoints."""
        return {slot_of(name): columns for name, columns in self.columns.items()}


def slot_of(name: str) -> str:
    """Return the name of the slot with the matrix of a sum, such as `logits/kernel/part_0`."""
    variable, _, part = name.rpartition("/part_")
    return f"{variable}/{NAME}" + (f"_{part}" if int(part) else "")


@frozen
class CompressedSums:
    """The sums of a graph with shared variables, as workers make them.

    Attributes:
        dense: The name of the tensor of each sum, and those of the gradients of all clones.
        rows: The names of the tensors with sums of rows.
    """

    compression: Cast | PowerSGD
    workers: int
    dense: Mapping[str, tuple[str, Sequence[str]]]
    rows: Sequence[str]

    @classmethod
    def of(cls, compiled: CompiledGraph, call: ir.Call, workers: int) -> CompressedSums:
        """Return the sums of a graph, for a compression."""
        ops, dense, rows = compiled.ledger.ops, {}, []
        for name in compiled.variables:
            for part in range(len(compiled.losses)):
                scope = f"aggregate/{name}/part_{part}" if part else f"aggregate/{name}"
                total, merged = ops.get(f"{scope}/add_n"), f"{scope}/add_n/UnsortedSegmentSum"
                if total is not None and total.type == "AddN":
                    taken = [each.name for each in total.inputs]
                    dense[f"{name}/part_{part}"] = (total.outputs[0].name, taken)
                rows += [f"{merged}:0"] if merged in ops else []
        compression = (
            Cast(tf.as_dtype(call.name).as_numpy_dtype) if call.name in CASTS else PowerSGD(rank_of(call))
        )
        return cls(compression, workers, dense, rows)

    def totals(self, run: Callable[[Any], Any]) -> dict[str, Array]:
        """Compute the gradients of a step, and return the sums that are to be given to its second run."""
        clones, rows = run([{name: list(each) for name, (_, each) in self.dense.items()}, list(self.rows)])
        found = dict(zip(self.rows, map(self.compression.sent, rows), strict=True))
        for name, (total, _) in self.dense.items():
            own = len(clones[name]) // self.workers
            parts = [
                np.sum(clones[name][first : first + own], axis=0)
                for first in range(0, len(clones[name]), own)
            ]
            found[total] = self.compression.total(name, parts)
        return found
