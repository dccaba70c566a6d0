"""Opens the data of a spec and feeds it to the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.compiled import CompiledGraph
from compiler.model.graph import InputNode
from compiler.plan import Plan, WorkerPlan
from compiler.towers import each_clone_reads, names_of_shares
from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors.cluster import in_process_source_on_remote_worker
from tfdeploy.data import Field, Stream, StreamOptions, open_split
from tfdeploy.runtime.membership.addresses import Membership
from tfdeploy.runtime.plans import folder_of
from tfdeploy.runtime.session.engine import Engine


def splits_of(spec: ir.Spec) -> dict[ir.SplitName, ir.Split]:
    """Return the splits of a spec by name."""
    data = spec.data
    found = {name: getattr(data, name) for name in ir.SPLITS} if data is not None else {}
    return {name: split for name, split in found.items() if split is not None}


def open_stream(
    plan: Plan,
    split: ir.Split,
    inputs: Sequence[InputNode],
    *,
    training: bool = False,
    seed: int | None = None,
) -> Stream:
    """Open a split and check its first example.

    Workers that have graphs of their own draw no seed: all of them, and each again after it was started anew,
    have to read one order, in which every example of a pass is in one share.

    Raises:
        RunError: If files are missing or damaged.
        SpecError: If the data does not fit its transforms or the inputs.
    """
    if isinstance(plan, WorkerPlan):
        seed = plan.spec.train.seed or 0
    options = StreamOptions(
        base=folder_of(plan.spec),
        seed=seed,
        deterministic=plan.spec.train.deterministic,
        training=training,
    )
    wanted = [Field(each.name, each.dtype, each.shape, assumed=each.assumed_shape) for each in inputs]
    stream = open_split(split, wanted, options)
    stream.check()
    return stream


def require_shares(plan: Plan, stream: Stream) -> None:
    """Check that each clone or worker that reads a share of the training data has an example."""
    stream.require_shares(names_of_shares(plan), clones=each_clone_reads(plan))


def require_readable(streams: Iterable[Stream], membership: Membership | None) -> None:
    """Check that the servers of a cluster can read the streams without Python.

    The servers read the data if this process is the client of one graph, and not a task itself.

    Args:
        membership: The cluster, and the task of this process in it; None if there is no cluster of processes.

    Raises:
        RunError: If a stream needs Python.
    """
    if membership is None or membership.task is not None:
        return
    for stream in streams:
        needs = stream.needs_python
        if needs is not None:
            call, task = stream.split.source, membership.cluster.chief.ref
            told = in_process_source_on_remote_worker(
                call.span, source=call.name, task=task, reason=needs.reason, advice=needs.advice
            )
            raise RunError(told)


def part_of_batch(plan: Plan) -> tuple[int, int, int] | None:
    """Return which part of the batch of a step a worker reads, if workers come and go; else None.

    All of them read one order, so that its place tells which examples have been used, however many they were.
    """
    if not isinstance(plan, WorkerPlan) or not plan.worker.changes:
        return None
    before = plan.worker.everyone[: plan.worker.index]
    start = plan.micro_batches * sum(tower.batch for towers in before for tower in towers)
    return start, start + plan.own_batch, plan.global_batch


CONSUMED = "consumed"
BEGINNING = "beginning to read the training data"
"""What a run does meanwhile, in words that fit into a sentence."""


def attach_part(compiled: CompiledGraph, starters: dict[Stream, Any], stream: Stream) -> None:
    """Write the op that starts the training data of a worker that comes and goes, at whatever example."""
    pipe, window = compiled.train_inputs[0], part_of_batch(compiled.plan)

    def batches() -> Any:
        with tf.name_scope(f"{pipe.name}/"):
            consumed = tf.compat.v1.placeholder(tf.int64, (), CONSUMED)
        options = evolve(stream.options, skip_examples=consumed, window=window, seed=compiled.seed)
        part = evolve(stream, options=options)
        batch = pipe.size if pipe.size is not None else compiled.plan.towers[0].batch
        return part.batches(batch, repeat=True, drop_remainder=True)

    if stream not in starters:
        starters[stream] = pipe.attach(batches)


def feed_training(engine: Engine, stream: Stream, consumed: int) -> None:
    """Start all input pipes of the training data."""
    if part_of_batch(engine.compiled.plan) is not None:
        pipe = engine.compiled.train_inputs[0]
        attach_part(engine.compiled, engine.starters, stream)
        engine.start_pipe(pipe, stream, {f"{pipe.name}/{CONSUMED}:0": consumed})
        return
    for pipe in engine.compiled.train_inputs:
        parts = 1 if pipe.shard is None else pipe.shard[1]
        options = evolve(
            stream.options, skip_examples=consumed // parts, shard=pipe.shard, reader=pipe.reader
        )
        part = evolve(stream, source=stream.source.read_by(pipe.reader), options=options)
        engine.feed(pipe, part, training=True)
