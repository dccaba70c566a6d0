"""Updates by a worker that has a graph of its own, of variables that all workers share.

Async: the worker sums its own clones' gradients and applies them as soon as it has them. Sync: it puts them
into its mailboxes and marks them with the step that they belong to. When enough workers have done so, the
chief takes the sum, applies it once, and begins the next step. A gradient of another step is never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Generic, TypeVar

import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.clip import clip_gradients
from compiler.graph.gradients.collect import sum_gradients
from compiler.graph.gradients.regularize import regularize_gradients
from compiler.graph.gradients.summed import SummedGradient, join_parts
from compiler.graph.gradients.weighting import LossSum, inverses_of, scores_of_step
from compiler.graph.tower.template import Join
from compiler.graph.update.apply import apply_gradients, step_scalars
from compiler.graph.update.statistics import (
    MOVED,
    Statistic,
    add_changes,
    assign_statistics,
    changed,
    new_statistics,
)
from compiler.graph.update.step import applied_values, build_update, join_ends
from compiler.graph.variables.variables import GraphVariable
from compiler.graph.workers.coordination import Coordination
from compiler.graph.workers.exchange import REPORTED, WorkerExchange, reported, scores_in
from compiler.graph.workers.local import LocalReplica
from compiler.graph.workers.replicas import Joined, Replica
from compiler.plan import WorkerPlan
from compiler.step.mailboxes import SCOPE, Box
from compiler.step.record import SMALL, Entered, Rows, Run, Tensor, Value
from compiler.step.sums.compress import is_wide
from compiler.step.values import dense, pack, unpack, values_of, with_values
from compiler.step.writer import Spot


def build_between(
    assembly: Assembly,
    plan: WorkerPlan,
    losses: Sequence[LossSum],
    states: Sequence[Tensor],
    joined: Joined | None = None,
) -> WorkerExchange:
    """Add a worker's part of the update and, for the chief, the part that applies it."""
    if plan.keeps_all:
        kind = LocalReplica if plan.update.mode == "local" else Replica
        return kind(assembly, plan, losses, states, joined).build()
    coordination = Coordination.build(assembly.global_step, assembly.step_place, assembly.ledger, plan)
    if plan.update.mode == "async":
        return _build_async(assembly, plan, coordination)
    return _Sync(assembly, plan, coordination, losses, states).build()


def _build_async(assembly: Assembly, plan: WorkerPlan, coordination: Coordination) -> WorkerExchange:
    worker, table = plan.worker, coordination.table
    scalars = step_scalars(assembly)
    update = build_update(assembly, scalars, MOVED if worker.is_chief else ())
    ended = join_ends(assembly, [*update.done, *add_changes(assembly)])
    step = table.claim("next", ended)
    shape = (worker.count, REPORTED + len(plan.model.metrics))
    at = table.at("reports")
    report = write_traced(at, _report, width=shape[1:])
    told = {"dtype": "float32", "shape": shape, "shared_name": "cluster/reports"}
    name, held = at.name("VarHandleOp"), ("float32", shape)
    (reports,) = at.writer.write("VarHandleOp", name, (), at.placed, told, holds=held)
    send_report, clear, read = write_traced(
        at, _send_report, reports, report, worker=worker.index, shape=shape
    )
    return WorkerExchange(
        worker,
        coordination,
        step=step,
        learning_rates=scalars.learning_rates,
        clear=Run(clear),
        gradients=update.gradients,
        chief_ops=update.of_statistics,
        report=report,
        send_report=Run(send_report),
        reports=read,
    )


def _report(width: tuple[int]) -> tf.Tensor:
    return tf.compat.v1.placeholder_with_default(tf.zeros(width), width, name="report")


def _send_report(
    reports: tf.Tensor, report: tf.Tensor, worker: int, shape: tuple[int, int]
) -> tuple[Any, ...]:
    send = tf.raw_ops.ResourceScatterUpdate(resource=reports, indices=[worker], updates=[report])
    clear = tf.raw_ops.AssignVariableOp(resource=reports, value=tf.zeros(shape))
    read = tf.raw_ops.ReadVariableOp(resource=reports, dtype=tf.float32)
    return send, clear, read


Posted = TypeVar("Posted", SummedGradient, Statistic)


@frozen
class _Post(Generic[Posted]):
    """What a worker puts into one box: a single gradient or statistic, or several small ones as one line."""

    box: Box
    members: tuple[Posted, ...]
    values: tuple[Value, ...]

    def put(self, worker: int, entries: Mapping[str, Entered]) -> list[str]:
        """Write the ops that fill the box of a worker; return their names."""
        value = self.values[0]
        if len(self.members) > 1:
            home = entries[values_of(value).op].placed
            value = pack(self.box.writer, f"{SCOPE}/{self.box.name}", self._tensors, home)
        return self.box.put(worker, value)

    @property
    def _tensors(self) -> list[Tensor]:
        return list(map(dense, self.values))

    def parted(self, total: Value) -> Iterable[tuple[Posted, Value]]:
        """Return the members, each with its value in what was taken out of boxes."""
        totals = [total]
        if len(self.members) > 1:
            scope, shapes = f"{SCOPE}/{self.box.name}/sum", [each.known_shape or () for each in self._tensors]
            totals = list[Value](unpack(self.box.writer, scope, dense(total), shapes, self.box.placed))
        return zip(self.members, totals, strict=True)


@define(slots=False)
class _Sync:
    assembly: Assembly
    plan: WorkerPlan
    coordination: Coordination
    losses: Sequence[LossSum]
    states: Sequence[Tensor]
    after: list[str] = field(factory=list)  # the names of the ops after which the chief looks into mailboxes
    present: Tensor | None = None
    here: list[Tensor] | None = None  # by worker, one if it is present and zero if it is not
    shares: list[Tensor] | None = None  # the same, times all workers divided by those present

    def __attrs_post_init__(self) -> None:
        self.worker = self.plan.worker
        self.scores = scores_of_step(self.losses, self.states)
        self.writer = self.assembly.ledger.writer("aggregate")

    def build(self) -> WorkerExchange:
        """Add what is posted and, for the chief, what is done with it."""
        gradients, statistics, report = self._gradients(), self._statistics(), self._report()
        entries = self.assembly.ledger.entries
        posted = [op for each in gradients for op in each.put(self._me, entries)]
        before = len(self.assembly.ledger.written)
        first = [each for each in statistics if each.members[0].join == "first"]
        posted += [op for each in first for op in each.put(self._me, entries)]
        own = self.assembly.ledger.names_since(before)  # nobody else has these
        posted += [op for each in statistics if each not in first for op in each.put(self._me, entries)]
        table, enough = self.coordination.table, self.worker.count - self.plan.update.backup
        posted += report.put(self._me, write_traced(table.at("report"), reported, self.scores))
        tick = write_traced(table.at("post"), _tick)
        if self.worker.is_chief:  # whom nobody else rings for this step before its own gradients are there
            before = len(self.assembly.ledger.written)
            posted = [*posted, table.forget("post", posted)]
            own |= self.assembly.ledger.names_since(before)
        arrived = table.set_own("arrived", tick, "post", posted)
        rung = table.ring(0, [arrived], enough)
        bells = {"posted": table.hear("posted", [rung]), "heard": table.hear("heard")}
        waits = {name: table.read_all(name, [each.op]) for name, each in bells.items()}
        sent = {"tick": tick, "post": Run(rung), **waits, "wake": Run(table.ring(self._me))}
        boxes = (*(each.box for each in gradients), *(each.box for each in statistics), report)
        if not self.worker.is_chief:
            return WorkerExchange(self.worker, self.coordination, boxes=boxes, **sent)
        before = len(self.assembly.ledger.written)
        came, required = table.require("came", enough)
        self.after = [required]
        self._weigh()
        scalars = step_scalars(self.assembly)
        losses, states = self._all_scores(report)
        summed = self._conditioned(gradients, losses)
        done = apply_gradients(self.chief, summed, scalars)
        done += self._new_statistics(statistics)
        apply = Run(self._begin_next([*done, *(each.op for each in scores_of_step(losses, states))]))
        clear = Run(self._clear(boxes))
        made = self.assembly.ledger.names_since(before)
        return WorkerExchange(
            self.worker,
            self.coordination,
            **sent,
            apply=apply,
            at_once=(bells["posted"], came),
            required=required,
            present=self.present,
            clear=clear,
            learning_rates=scalars.learning_rates,
            losses=losses,
            states=states,
            gradients=applied_values(summed),
            chief_ops=made | own,
            boxes=boxes,
        )

    @property
    def chief(self) -> Assembly:
        """The assembly without towers, because the chief takes its gradients from mailboxes.

        Towers may still read weights in the same run, and what a run has changed that fails for want of
        gradients would be changed again, so that not even the decay of a weight begins before they are there.
        """
        return evolve(self.assembly, towers=[], before_updates=self.after)

    @property
    def _me(self) -> int:
        return self.worker.index

    def _totals(self, boxes: Sequence[Box], weights: Sequence[Tensor] | None) -> list[Value]:
        """Return the sum of each of some boxes over all workers, which may have weights."""
        return [each.total(self.worker.count, weights, self.after) for each in boxes]

    def _gradients(self) -> list[_Post[SummedGradient]]:
        """Return the sums over the worker's own clones, with the boxes for them."""
        return self._posts([self._sent(each, each.copies[0]) for each in sum_gradients(self.assembly)])

    def _sent(self, gradient: SummedGradient, value: Value) -> tuple[Box, SummedGradient, Value]:
        """Return a gradient with its box, and the value as it is sent there."""
        box = self._box(gradient.variable, gradient.part, isinstance(value, Rows))
        compress, elements = self.plan.update.compress, values_of(value)
        if compress is None or not is_wide(elements, compress.name):
            return box, gradient, value
        home = self.assembly.ledger.entries[elements.op].placed
        sent = self.writer.cast(f"{SCOPE}/{box.name}/sent", elements, compress.name, home)
        return evolve(box, held=compress.name), gradient, with_values(value, sent)

    def _posts(self, wanted: Sequence[tuple[Box, Posted, Value]], kind: str = "") -> list[_Post[Posted]]:
        """Return what is put into which box.

        Small values of a type for one server have a box together. Which these are depends on no worker.
        """
        found: dict[object, list[tuple[Box, Posted, Value]]] = {}
        for at, (box, each, value) in enumerate(wanted):
            device, small = box.placed.device, isinstance(value, Tensor) and (value.bytes or 0) <= SMALL
            together = small and self.plan.is_server(device)
            key = (device.scope, box.dtype, box.held) if together else at
            found.setdefault(key, []).append((box, each, value))
        return [self._post(each, kind) for each in found.values()]

    def _post(self, together: Sequence[tuple[Box, Posted, Value]], kind: str) -> _Post[Posted]:
        # by name, because the order of the gradients may be that of other ops in another worker
        boxes, members, values = zip(*sorted(together, key=lambda each: each[0].name), strict=True)
        first = boxes[0]
        if len(boxes) == 1:
            return _Post(first, members, values)
        size = sum(prod(each.shape) for each in boxes)
        name = f"together{kind}/{first.placed.device.scope}/{first.dtype}"
        whole = Box(name, first.dtype, (size,), first.placed, self.writer, held=first.held)
        return _Post(whole, members, values)

    def _box(self, variable: GraphVariable, part: int = 0, sparse: bool = False) -> Box:
        placed = self.assembly.rulebook.updates(variable.placement)
        info = variable.info
        name = f"{info.name}/part_{part}" if part else info.name
        return Box(name, info.dtype, tuple(info.shape), placed, self.writer, sparse=sparse)

    def _statistics(self) -> list[_Post[Statistic]]:
        """Return the statistics with their boxes, and what the worker puts there: its part of their mean.

        If statistics are those of clone 0, only the chief puts something there.
        """
        found: dict[Join, list[tuple[Box, Statistic, Value]]] = {}
        for each in new_statistics(self.assembly, sent=True):
            value = each.value
            if each.join == "mean":
                at = Spot(self.writer, "", self.assembly.ledger.entries[value.op].placed)
                part = self.plan.own_batch / self.plan.global_batch
                share = self.writer.constant(at.name("Const"), part, value.dtype, at.placed)
                (value,) = at.op("Mul", "mul", value, share)
            if each.join != "first" or self.worker.is_chief:
                found.setdefault(each.join, []).append((self._box(each.variable), each, value))
        return [post for join, each in found.items() for post in self._posts(each, f"/{join}")]

    def _report(self) -> Box:
        size = sum(each.elements or 0 for each in self.scores)
        return Box("report", "float32", (size,), self.assembly.step_place, self.writer)

    def _weigh(self) -> None:
        """If workers may be missing, give each that is present a larger weight, to make up for those."""
        if not self.plan.update.backup:
            return
        at = self.coordination.table.at("present")
        self.present, self.here, self.shares = write_traced(at, _weights, count=self.worker.count)

    def _conditioned(
        self, gradients: Sequence[_Post[SummedGradient]], losses: Sequence[LossSum]
    ) -> list[SummedGradient]:
        """Take the sums over all workers; return the gradients as they are applied."""
        chief = self.chief
        weights = self.shares if self.plan.update.reduce == "mean" else self.here
        totals = self._totals([each.box for each in gradients], weights)
        summed = [
            evolve(each, copies=(own,))
            for post, total in zip(gradients, totals, strict=True)
            for each, own in post.parted(total)
        ]
        inverses = inverses_of(self.coordination.table.at("weights"), losses, self.plan.update)
        summed = join_parts(chief, summed, inverses)
        return clip_gradients(chief, regularize_gradients(chief, summed))

    def _new_statistics(self, posted: Sequence[_Post[Statistic]]) -> list[str]:
        """Return the names of the ops that give statistics the values in their boxes."""
        found = []
        for post in posted:
            join = post.members[0].join
            if join == "first":
                total = post.box.take(0, after=self.after)
            else:
                (total,) = self._totals([post.box], self.shares if join == "mean" else self.here)
            for each, value in post.parted(total):
                variable = self.chief.variables[each.variable.name]
                found.append(changed(self.chief, evolve(each, variable=variable, value=dense(value))))
        return assign_statistics(self.chief, found)

    def _begin_next(self, done: Sequence[str]) -> str:
        """Write what begins the next step after `done`, and after the scores have been taken."""
        table = self.coordination.table
        at = table.at("applied", done)
        one = at.writer.constant(at.name("Const"), 1, "int64", at.placed)
        counted = table.step(at, one)
        tick = table.handles["tick"]
        begun = table.at("applied", counted).run("AssignAddVariableOp", "AssignAddVariableOp", tick, one)
        rung = [table.ring(each, [begun]) for each in range(1, self.worker.count)]
        return table.at("applied", [begun, *rung]).run("NoOp", "NoOp")

    def _clear(self, boxes: Sequence[Box]) -> str:
        ops = [name for each in boxes for name in each.clear(self.worker.count)]
        return self.coordination.table.at("clear", ops).run("NoOp", "NoOp")

    def _all_scores(self, report: Box) -> tuple[tuple[LossSum, ...], tuple[Tensor, ...]]:
        """Return the parts of the loss, and states of metrics, of all workers whose gradients are used."""
        (total,) = self._totals([report], self.here)
        at = self.coordination.table.at("scores")
        return scores_in(at, dense(total), self.losses, self.scores, self.present, self.worker.count)


# --- functions of TensorFlow ------------------------------------------------------------------------------


def _tick() -> tf.Tensor:
    return tf.compat.v1.placeholder_with_default(tf.constant(0, tf.int64), (), name="tick")


def _weights(count: int) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
    present = tf.compat.v1.placeholder_with_default(tf.ones((count,), tf.float32), (count,), name="present")
    factor = count / tf.reduce_sum(present)
    return present, tf.unstack(present), tf.unstack(present * factor)
