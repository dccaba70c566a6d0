"""PowerSGD between workers: two thin matrices are sent in place of the matrix of a large gradient.

As in Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization" (2019,
arXiv 1905.13727): a step of power iteration that goes on from that of the last step, and error feedback. All
workers make the same matrices of the same sums. What a worker's own part of them lacks stays with the worker,
which adds it to its next gradient.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import define, evolve

from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.ledger import Ledger
from compiler.graph.variables.variables import checkpoint_copy, create_variable
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Rows, Tensor
from compiler.step.writer import Spot
from dsl import ir
from dsl.schema import functions

NAME = "power_sgd"
SIDES = ("left", "right", "lacking")
"""What the names of the matrices of a gradient end with, and of what these lack."""

LACKING = f"{NAME}_lacking"
"""What the name of a variable ends with that has what a worker's last step lacked."""


def rank_of(call: ir.Call) -> int:
    """Return the columns of the matrices that are sent."""
    signature = functions.function("compression", NAME)
    assert signature is not None
    (rank,) = signature.arguments
    given = functions.arguments_of("compression", call)
    return int(given.get(rank.name, rank.default))


def is_worth_it(shape: Sequence[int], rank: int) -> bool:
    """Whether two matrices of `rank` columns have at most half of the elements of a gradient."""
    if len(shape) < 2:  # noqa: PLR2004  # a vector
        return False
    columns = shape[-1]
    rows = int(np.prod(shape[:-1]))
    return 2 * rank * (rows + columns) <= rows * columns


def first_columns(name: str, shape: Sequence[int], rank: int) -> np.ndarray[Any, Any]:
    """Return the matrix with which the first step begins: normal numbers, the same for all workers."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return generator.standard_normal((shape[-1], rank), np.float32)


@define
class LowRank:
    """The compression of one gradient."""

    name: str  # the name of its sum, and the names of what is summed or kept of it end with its parts
    shape: tuple[int, ...]
    at: Spot
    columns: Any  # the variable with the matrix with which the next step begins, the same for all workers
    beside: Placed
    lacking: Any  # the variable with what this worker has not sent yet
    _whole: Tensor | None = None

    def product(self, gradient: Tensor) -> Tensor:
        """Write this worker's part of the first sum, of which all workers make the left matrix."""
        columns = evolve(self.at, placed=self.beside).read(self.columns.tensor)
        lacking = self.at.read(self.lacking.tensor)
        self._whole, product = write_traced(self.at, _product, gradient, lacking, columns)
        return product

    def sides(self, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Write the left matrix, this worker's part of the right one, and what these two lack."""
        left, right, lacking = write_traced(self.at, _sides, self._whole, total)
        return left, right, lacking

    def gradient(self, left: Tensor, right: Tensor) -> Tensor:
        """Write the sum of the gradients of all workers, as the matrices have it."""
        return write_traced(self.at, _joined, left, right, shape=self.shape)

    def keep(self, right: Tensor, lacking: Tensor) -> list[str]:
        """Write what the next step begins with; return the names of the ops."""
        there = evolve(self.at, placed=self.beside)
        return [there.assign(self.columns.tensor, right), self.at.assign(self.lacking.tensor, lacking)]


def compressed(
    gradients: Sequence[SummedGradient], plan: WorkerPlan, places: Sequence[Placed], ledger: Ledger
) -> tuple[dict[str, LowRank], dict[str, Any]]:
    """Make the variables for gradients that are worth it.

    Returns:
        The compressions by the names of the sums, and what each worker has for itself, by its name in
        checkpoints: of this worker, and on the chief of all workers, because it writes them.
    """
    call = plan.update.compress
    rank = 0 if call is None or call.name != NAME else rank_of(call)
    found, kept = dict[str, LowRank](), dict[str, Any]()
    for each in gradients if rank else ():
        variable, value = each.variable, each.copies[0]
        name, part = f"{variable.name}/part_{each.part}", f"_{each.part}" if each.part else ""
        shape = variable.info.shape
        if isinstance(value, Rows) or value.dtype != "float32" or not is_worth_it(shape, rank):
            continue
        beside, own = variable.slot_place(0), plan.worker.index
        first = first_columns(name, shape, rank)
        columns = create_variable(
            f"{variable.name}/{NAME}{part}", partial(tf.constant, first), beside, ledger
        )
        variable.slots[f"{NAME}{part}"] = [columns]
        flat = (int(np.prod(shape[:-1])), shape[-1])
        of_each = {}
        for worker in range(plan.worker.count) if plan.worker.is_chief else (own,):
            stored = checkpoint_copy(f"{variable.name}/{LACKING}{part}", worker)
            of_each[worker] = kept[stored] = create_variable(
                stored, partial(tf.zeros, flat), places[worker], ledger
            )
        at = Spot(ledger.writer("aggregate"), f"aggregate/{name}", places[own])
        found[name] = LowRank(name, shape, at, columns, beside, of_each[own])
    return found, kept


# --- functions of TensorFlow ------------------------------------------------------------------------------


def _product(gradient: tf.Tensor, lacking: tf.Tensor, columns: tf.Tensor) -> list[tf.Tensor]:
    whole = tf.add(tf.reshape(gradient, lacking.shape), lacking, name="whole")
    return [whole, tf.matmul(whole, columns, name="product")]


def _sides(whole: tf.Tensor, total: tf.Tensor) -> list[tf.Tensor]:
    left, upper = tf.linalg.qr(total)
    left *= tf.where(tf.linalg.diag_part(upper) < 0, -1.0, 1.0)  # so that only one result is right
    right = tf.matmul(whole, left, transpose_a=True, name="right")
    return [left, right, tf.subtract(whole, tf.matmul(left, right, transpose_b=True), name="lacking")]


def _joined(left: tf.Tensor, right: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    return tf.reshape(tf.matmul(left, right, transpose_b=True), shape, name="gradient")
