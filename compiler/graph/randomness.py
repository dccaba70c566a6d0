"""Random numbers: one seed for a run, and a stream of its own for each clone and step."""

from __future__ import annotations

import secrets
import zlib

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.plan import Tower
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.writer import Spot

DRAWS_PER_STEP = 1024
"""A random layer counts its draws up from here; more calls than this in a step are not expected."""


def draw_seed() -> int:
    """Return a seed for a spec that gives none."""
    return secrets.randbelow(2**31)


def tower_seed(assembly: Assembly, tower: Tower, seed: int) -> Tensor:
    """Return the random state of a tower at this step, two uint32.

    It depends only on the seed, the clone and the step, so that a resumed run draws the same numbers as an
    uninterrupted one. If the tower computes several micro-batches in a step, there is one state for each, in
    a tensor of shape [micro-batches, 2].
    """
    writer = assembly.ledger.writer("forward").on("forward", tower.index)
    at = Spot(writer, tower.op_name("seed"), Placed(tower.device, tower.reason))
    step = evolve(at, placed=assembly.step_place).read(assembly.global_step.tensor)
    own = zlib.crc32(f"{seed}/{tower.number}".encode())
    return write_traced(at, _states, step, own=own, micro_batches=assembly.plan.update.accumulate)


def _states(step: tf.Tensor, own: int, micro_batches: int) -> tf.Tensor:
    counted = step if micro_batches == 1 else step * micro_batches + tf.range(micro_batches, dtype=tf.int64)
    counted = tf.cast(counted * DRAWS_PER_STEP, tf.uint32)
    own_each = tf.constant(own if micro_batches == 1 else [own] * micro_batches, tf.uint32)
    return tf.stack([own_each, counted], axis=-1)
