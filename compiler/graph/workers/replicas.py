"""Updates by workers that each have all weights: each applies the sum of the gradients of all.

A step is two runs. In the first, a worker computes its gradients, takes part in the sum over all workers, and
keeps the sum in a staging area. That run may fail, because it needs the other workers. The second applies the
sum, and needs this worker alone, so that it is made as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.collect import sum_gradients
from compiler.graph.gradients.summed import SummedGradient, tensors_of
from compiler.graph.gradients.weighting import LossSum, inverse_weights
from compiler.graph.update.apply import step_scalars
from compiler.graph.update.statistics import Statistic, assign_statistics, changed, new_statistics
from compiler.graph.update.step import apply_sums, count_update
from compiler.graph.workers.exchange import WorkerExchange, reported, scores_in
from compiler.graph.workers.meeting import SCOPE, Counts, Meeting
from compiler.graph.workers.power_sgd import SIDES, LowRank, compressed
from compiler.plan import WorkerPlan
from compiler.reasons import Placed, Reason
from compiler.step.record import SMALL, Rows, Run, Tensor, Value
from compiler.step.sums import Aggregation, make_aggregation, sums_of
from compiler.step.sums.between import Between
from compiler.step.sums.compress import CASTS
from compiler.step.writer import Spot

TOTALS = "totals"
BUCKET = 1 << 20
"""The bytes of small tensors that are sent as one message, if the spec does not say how many."""


@frozen
class Joined:
    """What a worker counts, and its messages to the others.

    Attributes:
        counts: What it counts.
        between: The sums over all workers.
    """

    counts: Counts = field(repr=False)
    between: Between = field(repr=False)


def join_workers(assembly: Assembly, plan: WorkerPlan) -> Joined:
    """Make what a worker needs to send something to others."""
    counts = Counts.create(assembly.global_step, assembly.step_place, assembly.ledger)
    return Joined(
        counts,
        Between(
            assembly.ledger.writer("aggregate"),
            [_place_of(plan, worker) for worker in range(plan.worker.count)],
            plan.worker.index,
            counts.read("number", "number"),
            make_aggregation(plan.update.aggregate),
        ),
    )


def build_replicas(
    assembly: Assembly,
    plan: WorkerPlan,
    losses: Sequence[LossSum],
    states: Sequence[Tensor],
    joined: Joined | None = None,
) -> WorkerExchange:
    """Add a worker's part of the sums, and the update by them."""
    return _Replica(assembly, plan, losses, states, joined).build()


class _Replica:
    def __init__(
        self,
        assembly: Assembly,
        plan: WorkerPlan,
        losses: Sequence[LossSum],
        states: Sequence[Tensor],
        joined: Joined | None,
    ) -> None:
        self.assembly = assembly
        self.plan = plan
        self.losses = losses
        self.states = states
        joined = joined or join_workers(assembly, plan)
        self.counts, self.between, places = joined.counts, joined.between, joined.between.places
        table = Placed(places[0].device, Reason(f"meeting -> {places[0].device.ref}", "default"))
        self.meeting = Meeting.build(self.counts, table, assembly.ledger, plan)
        self.here = places[plan.worker.index]

    def build(self) -> WorkerExchange:
        """Add both runs of a step."""
        plan, own = self.plan, self.assembly
        gradients, statistics = sum_gradients(own), self._statistics()
        scores = [*(tensor for each in self.losses for tensor in each.tensors), *self.states]
        report = write_traced(self.counts.at("report"), reported, scores)
        values = {f"{each.variable.name}/part_{each.part}": each.copies[0] for each in gradients}
        exact = {f"{each.variable.name}/statistic": each.value for each in statistics} | {"report": report}
        thin, kept, settled = self._compressed(gradients)
        stage, totals = self._stage(self._sums(values, exact, thin))
        lasting = list[str]()
        for name, one in thin.items():
            left, right, lacking = (_dense(totals.pop(f"{name}/{side}")) for side in SIDES)
            totals[name] = one.gradient(left, right)
            lasting += one.keep(right, lacking)
        # what follows has no towers, because it is no part of the run that has them
        apart = evolve(own, towers=[])
        scalars = step_scalars(apart)
        total = _dense(totals.pop("report"))
        losses, states = scores_in(self.counts.at("scores"), total, self.losses, scores)
        summed = [
            evolve(each, copies=self._spread(each, totals[f"{each.variable.name}/part_{each.part}"]))
            for each in gradients
        ]
        new = [evolve(each, value=_dense(totals[f"{each.variable.name}/statistic"])) for each in statistics]
        update = apply_sums(
            apart,
            scalars,
            summed,
            self._inverses(losses),
            lambda gate: assign_statistics(apart, [changed(apart, each) for each in new], gate),
        )
        own.applied = apart.applied
        counted = count_update(
            apart,
            [
                *update.done,
                *lasting,
                *(each.op for each in (*(t for each in losses for t in each.tensors), *states)),
            ],
        )
        apply = Run(self.counts.count([counted.name], plan.global_batch))
        return WorkerExchange(
            plan.worker,
            meeting=self.meeting,
            post=Run(stage),
            sends=tuple(self.between.sends),
            apply=apply,
            learning_rates=scalars.learning_rates,
            losses=losses,
            states=states,
            gradients=update.gradients,
            inbox=self.between.inbox("mail/inbox"),
            staged=self.staged,
            unstage=self.unstage,
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
        ledger, own = self.assembly.ledger, self.plan.worker.index
        before = len(ledger.written)
        thin, kept = compressed(gradients, self.plan, self.between.places, ledger)
        settled = None
        if thin and self.plan.worker.is_chief:
            made = self.counts.variables["made"]
            others = [
                Spot(ledger.writer("save"), f"{SCOPE}/made_by_{worker}", place)
                for worker, place in enumerate(self.between.places)
                if worker != own
            ]
            handles = [
                at.writer.variable(at.name("handle"), made.type, made.sizes, made.name, at.placed)
                for at in others
            ]
            reads = [at.read(handle) for at, handle in zip(others, handles, strict=True)]
            settled = Spot(ledger.writer("save"), f"{SCOPE}/made_by_others", self.here).op(
                "Pack", "all", *reads
            )[0]
        host, entries = self.here.device.host, ledger.entries
        self.between.abroad += [
            each for each in ledger.names_since(before) if entries[each].device.host != host
        ]
        return thin, kept, settled

    def _forget(self, thin: Mapping[str, LowRank]) -> Run | None:
        """Write what forgets what this worker has not sent yet."""
        if not thin:
            return None
        writer = self.assembly.ledger.writer("init")
        first = [each.lacking.first_assigned for each in thin.values()]
        return Run(writer.after(writer.unique(f"{SCOPE}/forget"), first, self.here))

    # --- the sums -----------------------------------------------------------------------------------------

    def _statistics(self) -> list[Statistic]:
        """Return the statistics with this worker's part of their sum over all workers."""
        found = []
        share = self.plan.own_batch / self.plan.global_batch
        for each in new_statistics(self.assembly):
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
        """Return the sums over all workers, with matrices in place of the gradients for which these are sent.

        Args:
            gradients: The gradients.
            exact: What is sent as it is.
            thin: What makes the matrices, by the names of gradients.
        """
        compress = self.plan.update.compress
        if compress is not None and compress.name in CASTS:
            return self._totals(gradients, sums_of(self.plan.update)) | self._totals(exact)
        products = {name: each.product(_dense(gradients[name])) for name, each in thin.items()}
        totals = self._totals({**gradients, **products, **exact})
        sides = {name: each.sides(_dense(totals.pop(name))) for name, each in thin.items()}
        right = self._totals({f"{name}/right": own for name, (_, own, _) in sides.items()})
        for name, (left, _, lacking) in sides.items():
            totals |= {
                f"{name}/left": left,
                f"{name}/right": right[f"{name}/right"],
                f"{name}/lacking": lacking,
            }
        return totals

    def _totals(
        self, values: Mapping[str, Value], aggregation: Aggregation | None = None
    ) -> dict[str, Value]:
        """Return the sums of values over all workers; small ones of a type are sent as one message."""
        found = dict[str, Value]()
        limit = self.plan.update.pack
        small = SMALL if limit is None else limit
        packs: dict[str, list[tuple[str, Tensor]]] = {}
        for name, value in values.items():
            if isinstance(value, Rows) or value.bytes is None or value.bytes > small:
                found[name] = self.between.sum(name, value, aggregation)
                continue
            pack = packs.setdefault(value.dtype, [])
            if sum(each.bytes or 0 for _, each in pack) + value.bytes > (limit or BUCKET) and pack:
                found |= self._packed(pack, aggregation)
                pack.clear()
            pack.append((name, value))
        for pack in packs.values():
            found |= self._packed(pack, aggregation)
        return found

    def _packed(
        self, members: Sequence[tuple[str, Tensor]], aggregation: Aggregation | None
    ) -> dict[str, Value]:
        """Return the sums of tensors of one type, which are sent as one."""
        writer, here = self.between.writer, self.here
        name = f"pack_{writer.next_number('packs') - 1}"
        if len(members) == 1:
            ((own, value),) = members
            return {own: self.between.sum(own, value, aggregation)}
        scope = f"aggregate/{name}"
        flat = [writer.reshape(f"{scope}/Reshape", each, [-1], here) for _, each in members]
        total = self.between.sum(name, writer.concat(f"{scope}/packed", flat, 0, here), aggregation)
        assert isinstance(total, Tensor)
        sizes = [each.elements or 0 for _, each in members]
        parts = writer.split(f"{scope}/split", total, sizes, 0, here)
        return {
            own: writer.reshape(f"{scope}/part", part, each.known_shape or (), here)
            for (own, each), part in zip(members, parts, strict=True)
        }

    def _stage(self, totals: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
        """Keep the sums from the first run of a step to the second; return the op that does, and the sums."""
        at = Spot(self.between.writer, f"aggregate/{TOTALS}", self.here)
        tensors = [tensor for each in totals.values() for tensor in tensors_of(each)]
        told = {"dtypes": [each.dtype for each in tensors], "shared_name": f"tfdeploy/{TOTALS}"}
        put = at.name("put")
        at.writer.write("Stage", put, tensors, at.placed, told)
        made = [(each.dtype, each.shape) for each in tensors]
        taken = list(at.writer.write("Unstage", at.name("take"), (), at.placed, told, made=made))
        self.staged = at.op("StageSize", "size", **told)[0]
        self.unstage = Run(at.run("StageClear", "clear", **told))
        found: dict[str, Value] = {}
        for name, each in totals.items():
            first = taken.pop(0)
            found[name] = Rows(first, taken.pop(0)) if isinstance(each, Rows) else first
        return put, found

    # --- the update ---------------------------------------------------------------------------------------

    def _spread(self, gradient: SummedGradient, total: Value) -> tuple[Value, ...]:
        """Return the sum for each copy of a variable, on the device of the copy."""
        variable, writer = gradient.variable, self.between.writer
        scope, found = f"aggregate/{variable.name}", list[Value]()
        by_device = {self.here.device: total}
        for copy in range(len(variable.copies)):
            place = variable.beside(copy)
            if place.device not in by_device:
                by_device[place.device] = writer.copy(f"{scope}/copy", total, place)
            found.append(by_device[place.device])
        return tuple(found)

    def _inverses(self, losses: Sequence[LossSum]) -> list[Tensor | None]:
        """Return the factors on the sums of each part of the loss: one over its weight, if it has one."""
        weights = [each.weight for each in losses]
        if self.plan.update.reduce == "sum" or not any(each is not None for each in weights):
            return [None] * len(weights)
        return inverse_weights(self.counts.at("weights"), weights)


def _dense(value: Value) -> Tensor:
    """Return a value that is not rows."""
    assert isinstance(value, Tensor)
    return value


def _place_of(plan: WorkerPlan, worker: int) -> Placed:
    """Return the place of a worker's part of the sums: its CPU, because messages are in memory there."""
    device = plan.topology.first_cpu(*plan.worker.everyone[worker][0].device.host)
    return Placed(device, Reason(f"workers -> {device.ref}", "default"))
