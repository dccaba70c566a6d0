"""Updates by workers that each have all weights: each applies the sum of the gradients of all.

A step is two runs. In the first, a worker computes its gradients, takes part in the sum over all workers, and
keeps the sum in a staging area. That run may fail, because it needs the other workers. The second applies the
sum, and needs this worker alone, so that it is made as a whole or not at all.

If the slots are cut over the clones, a worker gets the sums of its own parts alone, and conditions them in
the first run, because the norm of a gradient is one of all parts. In a third run all workers send each other
the parts that they have updated. It changes nothing that it depends on, so that it can be made again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.figures import gathered
from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.collect import sum_gradients
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.unscale import Gate, are_finite, gate_if
from compiler.graph.gradients.weighting import LossSum, inverses_of, scores_of_step
from compiler.graph.tower.template import Join
from compiler.graph.update.apply import step_scalars, updated_part
from compiler.graph.update.statistics import ALL, Statistic, assign_statistics, changed, new_statistics
from compiler.graph.update.step import apply_conditioned, apply_sums, condition, count_update
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.graph.workers.exchange import WorkerExchange, reported, scores_in
from compiler.graph.workers.meeting import SCOPE, Counts, Meeting
from compiler.graph.workers.power_sgd import SIDES, LowRank, compressed
from compiler.placement.rules import by_default
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import SMALL, Rows, Run, Tensor, Value
from compiler.step.sums import Aggregation, make_aggregation, sums_of
from compiler.step.sums.between import Between
from compiler.step.sums.compress import CASTS
from compiler.step.values import StagingArea, dense, pack, tensors_of, unpack
from compiler.step.writer import Spot

TOTALS = "totals"
BUCKET = 1 << 20
"""The bytes of small tensors that are sent as one message, if the spec does not say how many."""


@frozen
class Joined:
    """What a worker counts, and its messages to the others."""

    counts: Counts = field(repr=False)
    between: Between = field(repr=False)


def join_workers(assembly: Assembly, plan: WorkerPlan) -> Joined:
    """Make what a worker needs to send something to others."""
    counts = Counts.create(assembly.global_step, assembly.step_place, assembly.ledger)
    writer = assembly.ledger.writer("aggregate")
    places = [_place_of(plan, worker) for worker in range(plan.worker.count)]
    step, aggregation = counts.read("number", "number"), make_aggregation(plan.update.aggregate)
    return Joined(counts, Between(writer, places, plan.worker.index, step, aggregation))


@frozen
class Stage:
    """What is kept from one run of a step to the next."""

    put: str
    found: dict[str, Value]
    size: Tensor  # how many times it has been kept and not been taken
    clear: Run


@define(slots=False)
class Replica:
    """The part of one worker in the sums of all, and its update by them."""

    assembly: Assembly
    plan: WorkerPlan
    losses: Sequence[LossSum]
    states: Sequence[Tensor]
    joined: Joined | None
    owners: dict[str, int] = field(factory=dict)  # the worker that alone needs a sum, by the name of the sum

    def __attrs_post_init__(self) -> None:
        joined = self.joined or join_workers(self.assembly, self.plan)
        self.counts, self.between, places = joined.counts, joined.between, joined.between.places
        table = by_default("meeting", places[0].device)
        self.meeting = Meeting.build(self.counts, table, self.assembly.ledger, self.plan)
        self.here = places[self.plan.worker.index]

    def build(self) -> WorkerExchange:
        """Add the runs of a step."""
        plan, own = self.plan, self.assembly
        self.between.abroad += own.abroad
        gradients, statistics = sum_gradients(own), self.statistics()
        scores = scores_of_step(self.losses, self.states)
        report = write_traced(self.counts.at("report"), reported, scores)
        values = {_name_of(each): each.copies[0] for each in gradients}
        exact = {f"{each.variable.name}/statistic": each.value for each in statistics} | {"report": report}
        thin, kept, settled = self._compressed(gradients)
        for each in gradients:
            part = each.variable
            if isinstance(part, VariablePart) and part.whole.parts_of_workers:
                self.owners[_name_of(each)] = self._owner_of(part)
        totals, decided = self._sums(values, exact, thin), None
        if self.owners:
            gradients, decided = self._conditioned(gradients, totals, scores)
        stage = self.stage(totals)
        totals = stage.found
        lasting = list[str]()
        for name, one in thin.items():
            left, right, lacking = (dense(totals.pop(f"{name}/{side}")) for side in SIDES)
            totals[name] = one.gradient(left, right)
            lasting += one.keep(right, lacking)
        # what follows has no towers, because it is no part of the run that has them
        apart = evolve(own, towers=[])
        scalars = step_scalars(apart)
        total = dense(totals.pop("report"))
        losses, states = scores_in(self.counts.at("scores"), total, self.losses, scores)
        summed = [evolve(each, copies=self._spread(each, totals[_name_of(each)])) for each in gradients]
        new = [evolve(each, value=dense(totals[f"{each.variable.name}/statistic"])) for each in statistics]

        def give_statistics(gate: Gate | None) -> list[str]:
            return assign_statistics(apart, [changed(apart, each) for each in new], gate)

        if self.owners:
            gate = None
            if own.loss_scale is not None and decided is not None:
                gate = gate_if(apart, own.loss_scale, dense(totals[decided]))
            update = apply_conditioned(apart, scalars, summed, gate, give_statistics)
        else:
            update = apply_sums(apart, scalars, summed, self._inverses(losses), give_statistics)
        own.applied = apart.applied
        seen = [each.op for each in scores_of_step(losses, states)]
        counted = count_update(apart, [*update.done, *lasting, *seen])
        apply = Run(self.counts.count([counted.name], plan.global_batch))
        sends = tuple(self.between.sends)
        share = self._share()
        return WorkerExchange(
            plan.worker,
            meeting=self.meeting,
            post=Run(stage.put),
            sends=sends,
            apply=apply,
            share=share,
            share_sends=tuple(self.between.sends[len(sends) :]),
            learning_rates=scalars.learning_rates,
            losses=losses,
            states=states,
            gradients=update.gradients,
            inbox=self.between.inbox("mail/inbox"),
            staged=stage.size,
            unstage=stage.clear,
            crossings=tuple(self.between.crossings),
            abroad=frozenset(self.between.abroad),
            kept=kept,
            forget=self._forget(thin),
            settled=settled,
        )

    # --- compression --------------------------------------------------------------------------------------

    def _compressed(
        self, gradients: Sequence[SummedGradient]
    ) -> tuple[dict[str, LowRank], dict[str, Any], Tensor | None]:
        """Make what compressions keep from step to step; the chief also has what the others keep."""
        ledger = self.assembly.ledger
        before = len(ledger.written)
        thin, kept = compressed(gradients, self.plan, self.between.places, ledger)
        settled = self.made_by_others() if thin and self.plan.worker.is_chief else None
        self.note_abroad(before)
        return thin, kept, settled

    def made_by_others(self) -> Tensor:
        """Write how many steps each of the other workers has applied."""
        made, writer = self.counts.variables["made"], self.assembly.ledger.writer("save")
        others = [
            Spot(writer, f"{SCOPE}/made_by_{worker}", place)
            for worker, place in enumerate(self.between.places)
            if worker != self.plan.worker.index
        ]
        handles = [
            at.writer.variable(at.name("handle"), made.type, made.sizes, made.name, at.placed)
            for at in others
        ]
        reads = [at.read(handle) for at, handle in zip(others, handles, strict=True)]
        return Spot(writer, f"{SCOPE}/made_by_others", self.here).op("Pack", "all", *reads)[0]

    def note_abroad(self, before: int) -> None:
        """Note which of the ops since the first `before` are on devices of other workers."""
        ledger, host = self.assembly.ledger, self.here.device.host
        self.between.abroad += [
            each for each in ledger.names_since(before) if ledger.entries[each].device.host != host
        ]

    def _forget(self, thin: Mapping[str, LowRank]) -> Run | None:
        """Write what forgets what this worker has not sent yet."""
        if not thin:
            return None
        writer = self.assembly.ledger.writer("init")
        first = [each.lacking.first_assigned for each in thin.values()]
        return Run(writer.after(writer.unique(f"{SCOPE}/forget"), first, self.here))

    # --- slots of parts -----------------------------------------------------------------------------------

    def _owner_of(self, part: VariablePart) -> int:
        """Return the number of the worker that updates a part."""
        hosts = [each.device.host for each in self.between.places]
        return hosts.index(part.beside().device.host)

    def _conditioned(
        self, gradients: Sequence[SummedGradient], totals: dict[str, Value], scores: Sequence[Tensor]
    ) -> tuple[list[SummedGradient], str | None]:
        """Condition the gradients that this worker applies, which take the place of their sums.

        Returns:
            The gradients, and the name of the total that says whether those of all workers are finite, if the
            loss has a scale.
        """
        apart = evolve(self.assembly, towers=[], squares_of_all=self._squares_of_all)
        inverses: Sequence[Tensor | None] = [None] * len(self.losses)
        if any(each.weight is not None for each in self.losses):
            total = dense(totals["report"])
            losses, _ = scores_in(self.counts.at("weights"), total, self.losses, scores)
            inverses = self._inverses(losses)
        own = [
            evolve(each, copies=self._spread(each, totals.pop(_name_of(each)))[:1])
            for each in gradients
            if _name_of(each) in totals
        ]
        found, finite = condition(apart, own, inverses, are_finite)
        for each in found:
            totals[_name_of(each)] = each.copies[0]
        if finite is None:
            return found, None
        at = self.counts.at("finite")
        faults = self.between.sum("faults", write_traced(at, _is_fault, finite))
        totals["finite"] = write_traced(at, _is_none, faults)
        return found, "finite"

    def _squares_of_all(self, own: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the squares of whole gradients, from those of the parts that this worker has."""
        cut = [each.name for each in self.assembly.variables.values() if each.parts_of_workers]
        at = self.counts.at("squares")
        line = write_traced(at, _line, [own.get(each) for each in cut])
        found = self.between.sum("squares", line)
        parts = write_traced(at, _numbers, found, count=len(cut))
        return {**own, **dict(zip(cut, parts, strict=True))}

    def _share(self) -> Run | None:
        """Write what gives all copies the parts that workers have updated.

        Small weights of a type are sent as one message.
        """
        weights = [each for each in self.assembly.variables.values() if each.parts_of_workers]
        if not weights:
            return None
        packs = gathered(
            (each.name if each.info.bytes > SMALL else each.info.dtype, each) for each in weights
        )
        done: list[str] = []
        for number, members in enumerate(packs.values()):
            done += self._shared(f"shared_{number}", members)
        return Run(self.assembly.ledger.writer("update").after(f"{SCOPE}/shared", done, self.here))

    def _shared(self, name: str, weights: Sequence[GraphVariable]) -> list[str]:
        """Write what gives the copies of weights of one type their parts; return the names of the ops."""
        writer = self.assembly.ledger.writer("update")
        parts = [part for each in weights for part in each.parts]
        order = sorted(range(len(parts)), key=lambda at: self._owner_of(parts[at]))
        sizes = [0] * len(self.between.places)
        lines: list[Tensor] = []
        for part in parts:
            owner = self._owner_of(part)
            sizes[owner] += prod(part.info.shape)
            if owner == self.plan.worker.index:
                at = Spot(writer, f"{SCOPE}/{part.name}", part.beside())
                value = at.read(updated_part(self.assembly, at, part))
                lines.append(writer.reshape(f"{at.scope}/line", value, [-1], self.here))
        scope = f"{SCOPE}/{name}"
        if len(lines) > 1:
            own = writer.concat(f"{scope}/line", lines, 0, self.here)
        else:
            own = lines[0] if lines else writer.zeros(f"{scope}/none", (0,), weights[0].info.dtype, self.here)
        whole = self.between.lines(name, own, sizes)
        pieces: Sequence[Tensor] = [whole]
        if len(parts) > 1:
            pieces = writer.split(
                f"{scope}/split", whole, [prod(parts[at].info.shape) for at in order], 0, self.here
            )
        by_part = dict(zip(order, pieces, strict=True))
        done: list[str] = []
        for variable in weights:
            own_pieces = [by_part.pop(at) for at in sorted(by_part)[: len(variable.parts)]]
            at = Spot(writer, f"{SCOPE}/{variable.name}", self.here)
            joined = own_pieces[0]
            if len(own_pieces) > 1:
                joined = writer.concat(f"{at.scope}/joined", own_pieces, 0, self.here)
            value = writer.reshape(f"{at.scope}/whole", joined, variable.info.shape, self.here)
            for copy, each in enumerate(variable.copies):
                done.append(evolve(at, placed=variable.beside(copy)).assign(each.tensor, value))
        return done

    # --- the sums -----------------------------------------------------------------------------------------

    def statistics(self, joins: Collection[Join] = ALL) -> list[Statistic]:
        """Return the statistics with this worker's part of their sum over all workers."""
        found = []
        share = self.plan.own_batch / self.plan.global_batch
        for each in new_statistics(self.assembly, joins):
            at = Spot(self.assembly.ledger.writer("aggregate"), f"aggregate/{each.variable.name}", self.here)
            value = each.value
            if each.join == "mean":
                value = at.times(value, share)
            elif each.join == "first" and not self.plan.worker.is_chief:
                value = at.writer.zeros_like(at.name("none"), value, self.here)
            found.append(evolve(each, value=value))
        return found

    def _sums(
        self, gradients: Mapping[str, Value], exact: Mapping[str, Value], thin: Mapping[str, LowRank]
    ) -> dict[str, Value]:
        """Return the sums over all workers, with matrices in place of those gradients that are compressed."""
        compress = self.plan.update.compress
        if compress is not None and compress.name in CASTS:
            return self.totals(gradients, sums_of(self.plan.update)) | self.totals(exact)
        products = {name: each.product(dense(gradients[name])) for name, each in thin.items()}
        totals = self.totals({**gradients, **products, **exact})
        sides = {name: each.sides(dense(totals.pop(name))) for name, each in thin.items()}
        right = self.totals({f"{name}/right": own for name, (_, own, _) in sides.items()})
        for name, (left, _, lacking) in sides.items():
            totals |= {
                f"{name}/left": left,
                f"{name}/right": right[f"{name}/right"],
                f"{name}/lacking": lacking,
            }
        return totals

    def totals(self, values: Mapping[str, Value], aggregation: Aggregation | None = None) -> dict[str, Value]:
        """Return the sums of values over all workers; small ones of a type are sent as one message."""
        found = dict[str, Value]()
        limit = self.plan.update.pack
        small = SMALL if limit is None else limit
        packs: dict[tuple[str, int | None], list[tuple[str, Tensor]]] = {}
        for name, value in values.items():
            if isinstance(value, Rows) or value.bytes is None or value.bytes > small:
                found |= self._alone(name, value, aggregation)
                continue
            pack = packs.setdefault((value.dtype, self.owners.get(name)), [])
            if sum(each.bytes or 0 for _, each in pack) + value.bytes > (limit or BUCKET) and pack:
                found |= self._packed(pack, aggregation)
                pack.clear()
            pack.append((name, value))
        for pack in packs.values():
            found |= self._packed(pack, aggregation)
        return found

    def _alone(self, name: str, value: Value, aggregation: Aggregation | None) -> dict[str, Value]:
        """Return the sum of a value under its name, or nothing if another worker alone needs it."""
        total = self.between.sum(name, value, aggregation, self.owners.get(name))
        return {} if total is None else {name: total}

    def _packed(
        self, members: Sequence[tuple[str, Tensor]], aggregation: Aggregation | None
    ) -> dict[str, Value]:
        """Return the sums of tensors of one type, which the same workers need, and which are sent as one."""
        writer, here = self.between.writer, self.here
        name = f"pack_{writer.next_number('packs') - 1}"
        if len(members) == 1:
            ((own, value),) = members
            return self._alone(own, value, aggregation)
        scope, (names, tensors) = f"aggregate/{name}", zip(*members, strict=True)
        line = pack(writer, scope, tensors, here)
        total = self.between.sum(name, line, aggregation, self.owners.get(names[0]))
        if total is None:
            return {}
        shapes = [each.known_shape or () for each in tensors]
        parts = unpack(writer, scope, dense(total), shapes, here, ("split", "part"))
        return dict(zip(names, parts, strict=True))

    def stage(self, totals: Mapping[str, Value], name: str = TOTALS, placed: Placed | None = None) -> Stage:
        """Write what keeps values from one run of a step to the next."""
        at = Spot(self.between.writer, f"aggregate/{name}", placed or self.here)
        tensors = [tensor for each in totals.values() for tensor in tensors_of(each)]
        area = StagingArea(f"tfdeploy/{name}", tensors, at)
        put, taken = area.put(), area.take()
        found: dict[str, Value] = {}
        for own, each in totals.items():
            first = taken.pop(0)
            found[own] = Rows(first, taken.pop(0)) if isinstance(each, Rows) else first
        return Stage(put, found, area.size(), area.clear())

    # --- the update ---------------------------------------------------------------------------------------

    def _spread(self, gradient: SummedGradient, total: Value) -> tuple[Value, ...]:
        """Return the sum for each copy of a variable, on the device of the copy."""
        variable = gradient.variable
        parted = isinstance(variable, VariablePart)
        places = [variable.beside(copy) for copy in range(1 if parted else len(variable.copies))]
        return tuple(self.copied(total, f"aggregate/{variable.name}", places))

    def copied(self, total: Value, scope: str, places: Sequence[Placed]) -> list[Value]:
        """Return a value that is beside this worker's messages, at some places."""
        by_device = {self.here.device: total}
        for place in places:
            if place.device not in by_device:
                by_device[place.device] = self.between.writer.copy(f"{scope}/copy", total, place)
        return [by_device[place.device] for place in places]

    def _inverses(self, losses: Sequence[LossSum]) -> list[Tensor | None]:
        return inverses_of(self.counts.at("weights"), losses, self.plan.update)


def _name_of(gradient: SummedGradient) -> str:
    return f"{gradient.variable.name}/part_{gradient.part}"


def _is_fault(finite: tf.Tensor) -> tf.Tensor:
    return tf.where(finite, 0.0, 1.0)


def _is_none(faults: tf.Tensor) -> tf.Tensor:
    return tf.equal(faults, 0.0, name="finite")


def _line(squares: Sequence[tf.Tensor | None]) -> tf.Tensor:
    return tf.stack([tf.constant(0.0) if each is None else each for each in squares], name="line")


def _numbers(line: tf.Tensor, count: int) -> list[tf.Tensor]:
    return list(tf.unstack(line, count))


def _place_of(plan: WorkerPlan, worker: int) -> Placed:
    """Return the place of a worker's part of the sums: its CPU, because messages are in memory there."""
    return by_default("workers", plan.topology.first_cpu(*plan.worker.everyone[worker][0].device.host))
