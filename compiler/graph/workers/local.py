"""Workers that each train weights of their own for their clones, and average them with those of all others.

A step is two runs, as if gradients were summed. In the first, a worker computes the gradients of its clones
and keeps them, and the workers send each other their losses alone. So they begin each step together, and the
chief can evaluate and save what all have after the same step. The second run updates each clone by its own
gradient. If an average is due then, there are two more: one makes the means over all workers and keeps them,
and may fail; the other gives them to the clones, and needs this worker alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import evolve

from compiler.graph.fragments import write_traced
from compiler.graph.gradients.collect import sum_gradients
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.unscale import gate_of
from compiler.graph.gradients.weighting import own_inverses, scores_of_step
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.update.apply import step_scalars
from compiler.graph.update.local import (
    Family,
    changing,
    families_of,
    family_of,
    publish,
    shares_of,
    write_parts,
)
from compiler.graph.update.statistics import (
    ADDED,
    MOVED,
    Statistic,
    assign_statistics,
    changed,
    new_statistics,
)
from compiler.graph.update.step import Update, apply_conditioned, condition, count_update
from compiler.graph.variables.nodes import VariableWriter
from compiler.graph.variables.variables import checkpoint_copy, copy_name
from compiler.graph.workers.exchange import WorkerExchange, reported, scores_in
from compiler.graph.workers.meeting import SCOPE
from compiler.graph.workers.replicas import Replica, Stage
from compiler.plan import Tower
from compiler.reasons import Placed
from compiler.step.record import Run, Tensor, Value
from compiler.step.sums import Reduction, reduce_all
from compiler.step.values import dense, values_of
from compiler.topology import Device


class LocalReplica(Replica):
    """The part of one worker in averages, and the updates of its clones."""

    def build(self) -> WorkerExchange:
        """Add the runs of a step."""
        plan, own = self.plan, self.assembly
        scores = scores_of_step(self.losses, self.states)
        added = self.statistics(ADDED)
        exact = {f"{each.variable.name}/statistic": each.value for each in added}
        report = write_traced(self.counts.at("report"), reported, scores)
        totals = self.stage(self.totals({**exact, "report": report}))
        clones = [self._computed(tower.index) for tower in plan.towers]
        kept = self._kept(clones)
        stages, sends = [totals, *kept], tuple(self.between.sends)
        post = self._after("collected", [each.put for each in stages])
        # what follows has no towers, because it is no part of the run that has them
        apart = evolve(own, towers=[])
        scalars = step_scalars(apart)
        total = dense(totals.found["report"])
        losses, states = scores_in(self.counts.at("scores"), total, self.losses, scores)
        found = {name: value for each in kept for name, value in each.found.items()}
        updates = [self._applied(clone, *each, found, scalars) for clone, each in enumerate(clones)]
        done = [name for each in updates for name in each.done]
        sums = [evolve(each, value=dense(totals.found[f"{each.variable.name}/statistic"])) for each in added]
        done += assign_statistics(apart, [changed(apart, each) for each in sums])
        counted = count_update(apart, [*done, *(each.op for each in scores_of_step(losses, states))])
        apply = Run(self.counts.count([counted.name], plan.global_batch))
        means, give = self._average()
        before = len(own.ledger.written)
        everyone = self._everyone() if plan.worker.is_chief else {}
        families = [family_of(own, each) for each in changing(own)]
        of_own = {each.number: plan.micro_batches * each.batch / plan.own_batch for each in plan.towers}
        exchange = WorkerExchange(
            plan.worker,
            meeting=self.meeting,
            post=post,
            sends=sends,
            apply=apply,
            share=Run(means.put),
            share_sends=tuple(self.between.sends[len(sends) :]),
            give=give,
            shared=means.size,
            offer=publish(own, "offer", of_own, families),
            publish=self._publish(everyone) if plan.worker.is_chief else None,
            learning_rates=scalars.learning_rates,
            losses=losses,
            states=states,
            gradients=updates[0].gradients,
            inbox=self.between.inbox("mail/inbox"),
            staged=self.counts.at("staged").op("Pack", "sizes", *(each.size for each in stages))[0],
            unstage=self._after("forgotten", [each.clear.name for each in (*stages, means)]),
            crossings=tuple(self.between.crossings),
            kept=_saved(everyone, own.variables),
            settled=self.made_by_others() if plan.worker.is_chief and plan.worker.count > 1 else None,
        )
        self.note_abroad(before)
        return evolve(exchange, abroad=frozenset(self.between.abroad))

    # --- the updates of clones ----------------------------------------------------------------------------

    def _computed(self, clone: int) -> tuple[list[SummedGradient], list[Statistic]]:
        """Return the gradients of a clone as it applies them, and the new values of its statistics."""
        alone = self.assembly.alone(clone)
        gradients, _ = condition(alone, sum_gradients(alone), own_inverses(alone), gate_of)
        return gradients, new_statistics(alone, MOVED)

    def _kept(self, clones: Sequence[tuple[Sequence[SummedGradient], Sequence[Statistic]]]) -> list[Stage]:
        """Keep what clones have computed to the second run, on the devices on which it is."""
        entries = self.assembly.ledger.entries
        by_device: dict[Device, tuple[Placed, dict[str, Value]]] = {}
        for clone, (gradients, statistics) in enumerate(clones):
            values: dict[str, Value] = {each.variable.name: each.copies[0] for each in gradients}
            values |= {f"{each.variable.name}/statistic": each.value for each in statistics}
            for name, value in values.items():
                placed = entries[values_of(value).op].placed
                by_device.setdefault(placed.device, (placed, {}))[1][f"clone_{clone}/{name}"] = value
        return [
            self.stage(values, f"clones/{device.scope}", placed)
            for device, (placed, values) in by_device.items()
        ]

    def _applied(
        self,
        clone: int,
        gradients: Sequence[SummedGradient],
        moved: Sequence[Statistic],
        found: Mapping[str, Value],
        scalars: StepScalars,
    ) -> Update:
        """Write the update of a clone by what was kept of it."""
        alone = evolve(self.assembly.alone(clone), towers=[])
        taken = [evolve(each, copies=(found[f"clone_{clone}/{each.variable.name}"],)) for each in gradients]
        new = [
            evolve(each, value=dense(found[f"clone_{clone}/{each.variable.name}/statistic"]))
            for each in moved
        ]
        return apply_conditioned(
            alone,
            scalars,
            taken,
            None,
            lambda _: assign_statistics(alone, [changed(alone, each) for each in new]),
        )

    # --- averages -----------------------------------------------------------------------------------------

    def _average(self) -> tuple[Stage, Run]:
        """Write what makes the means over all workers, and what gives them to the clones of this one."""
        writer, families = self.between.writer, list(families_of(self.assembly))
        shares = shares_of(self.plan, self.plan.towers)
        averaged = [each for each in families if not each.first]
        reductions = []
        for number, each in enumerate(averaged):
            parts, home = write_parts(writer, each, f"average/{each.name}", shares), number % len(shares)
            reductions.append(
                Reduction(f"average/{each.name}", parts, each.places, [each.places[home]], writer, number)
            )
        sums = reduce_all(reductions, self.plan.update)
        values: dict[str, Value] = {each.name: total for each, (total,) in zip(averaged, sums, strict=True)}
        values |= {each.name: self._of_first(each) for each in families if each.first}
        means = self.stage(self.totals({f"average/{name}": each for name, each in values.items()}), "means")
        done = []
        for each in families:
            scope, mean = f"average/{each.name}", means.found[f"average/{each.name}"]
            news = self.copied(mean, f"aggregate/{scope}", each.places)
            for copy, (variable, new, place) in enumerate(zip(each.copies, news, each.places, strict=True)):
                name = f"{scope}/copy_{copy}/assign"
                done.append(writer.assign(name, variable.tensor, dense(new), place, role="update"))
        return means, Run(self.counts.add("averaged", "made", 1, done))

    def _of_first(self, family: Family) -> Tensor:
        """Write this worker's part of the value of the first clone of all: nothing, but for the chief."""
        writer, scope = self.between.writer, f"average/{family.name}/copy_0"
        value = writer.read(f"{scope}/ReadVariableOp", family.copies[0].tensor, family.places[0])
        if self.plan.worker.is_chief:
            return value
        return writer.zeros_like(f"{scope}/none", value, family.places[0])

    # --- checkpoints --------------------------------------------------------------------------------------

    def _everyone(self) -> dict[str, Family]:
        """Return the copies and slots of the clones of all workers, by the names of the variables and slots.

        The chief writes them to checkpoints. Those of other workers are variables of their graphs.
        """
        found, writer = dict[str, Family](), VariableWriter(self.assembly.ledger)
        for variable in changing(self.assembly):
            beside = [variable.beside(copy) for copy in range(len(variable.copies))]
            first = family_of(self.assembly, variable).first
            found[variable.name] = self._with_others(
                writer, Family(variable.name, variable.copies, beside, first)
            )
            for suffix, slots in variable.slots.items():
                places = [variable.slot_place(copy) for copy in range(len(slots))]
                name = f"{variable.name}/{suffix}"
                found[name] = self._with_others(writer, Family(name, slots, places, first=True))
        writer.finish()
        return found

    def _with_others(self, writer: VariableWriter, own: Family) -> Family:
        """Return a family with the copies of other workers behind those of the chief."""
        copies, places, like = list[Any](own.copies), list(own.places), own.copies[0]
        for worker, towers in enumerate(self.plan.worker.everyone):
            for number, tower in enumerate(towers if worker != self.plan.worker.index else ()):
                place = Placed(self._there(own.places[0].device, tower), own.places[0].reason)
                name, shared = checkpoint_copy(own.name, tower.number), copy_name(own.name, number)
                copies.append(writer.add(name, like.sizes, like.type, 0.0, place, shared))
                places.append(place)
        return evolve(own, copies=copies, places=places)

    def _there(self, device: Device, tower: Tower) -> Device:
        """Return what a device of the first clone is for a clone of another worker."""
        first = self.plan.towers[0].devices
        if device in first:
            return tower.devices[first.index(device)]
        return self.plan.devices_for(tower.device.host)[device]

    def _publish(self, everyone: Mapping[str, Family]) -> Run:
        families = [everyone[each.name] for each in changing(self.assembly)]
        return publish(self.assembly, "publish", shares_of(self.plan, self.plan.all_towers), families)

    def _after(self, name: str, ops: Sequence[str]) -> Run:
        """Write what ends some ops."""
        return Run(self.between.writer.after(f"{SCOPE}/{name}", ops, self.here))


def _saved(everyone: Mapping[str, Family], weights: Collection[str]) -> dict[str, Any]:
    """Return the variables of single clones by their names in checkpoints, as one graph of all saves them."""
    return {
        checkpoint_copy(name, clone): each
        for name, family in everyone.items()
        for clone, each in enumerate(family.copies if len(family.copies) > 1 else ())
        if clone or name in weights
    }
