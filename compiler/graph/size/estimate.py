"""The bytes of a graph that is going to be built, as a lower bound: towers, variables, sums and mailboxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from attrs import frozen

from compiler.graph.dtypes import size_in_bytes
from compiler.graph.size.sums import Sum, bytes_of_sums
from compiler.graph.size.written import Written
from compiler.graph.stamp.lookups import usage_of
from compiler.graph.stamp.places import Layout, TowerPlaces
from compiler.graph.tower.template import Template
from compiler.graph.tower.without_statistics import templates_of_towers
from compiler.placement.rules import Rulebook
from compiler.plan import Plan, VariablePlacement, WorkerPlan
from compiler.reasons import Placed
from compiler.step.mailboxes import SCOPE
from compiler.topology import Device

_OF_VARIABLE = Written(4, 4)
"""What each variable, copy or slot has: a handle, a first assignment, a read, and whether it has a value."""

_OF_BOX = Written(3, 3)
"""What each mailbox of each worker has: its handle, what empties it and what is read of it."""


@frozen
class Extent:
    """A number of ops, and the bytes that they take at least."""

    ops: int = 0
    bytes: int = 0


def extent_of_towers(plan: Plan, templates: Mapping[int, Template]) -> Extent:
    """Return what the towers of a plan take.

    Args:
        plan: The plan.
        templates: The traced templates by the number of their examples.
    """
    known: dict[int, tuple[int, int, int]] = {}
    device = min(len(plan.tensorflow_device(each)) for each in plan.topology.devices)
    ops = size = 0
    for tower, template in zip(plan.towers, templates_of_towers(plan, templates), strict=True):
        if id(template) not in known:
            known[id(template)] = _of_template(template)
        nodes, own, names = known[id(template)]
        ops += nodes
        size += own + nodes * device + names * len(tower.op_name("x")[:-1])
    return Extent(ops, size)


def _of_template(template: Template) -> tuple[int, int, int]:
    """Return the nodes that each tower has, their bytes without a device, and the names that get a scope.

    What reads weights instead of the ports of the template, and what looks up rows, is left out. So are
    inputs that come from ports, as their names are not known here.
    """
    usage = usage_of(template)
    ports = {node.name for node in template.graph_def.node if node.op == "Placeholder"}
    nodes = size = names = 0
    for node in template.graph_def.node:
        if node.name in ports or node.name in usage.gone or node.name in usage.lookups:
            continue
        from_ports = [len(each) for each in node.input if each in ports]
        nodes += 1
        size += node.ByteSize() - len(node.device) - sum(from_ports)
        names += 1 + len(node.input) - len(from_ports)
    return nodes, size, names


def extent_of_variables(
    plan: Plan, placements: Sequence[VariablePlacement], slots: Mapping[str, int]
) -> Extent:
    """Return what the variables of a plan take, with their copies and slots.

    Args:
        plan: The plan.
        placements: The places of the variables.
        slots: The number of slots of each variable that has some.
    """
    ops = size = 0
    for each in placements:
        copies = each.copies or (each.placed.device,)
        number = len(copies) * (1 + (slots.get(each.info.name, 0) if not each.parts else 0))
        device = min(len(plan.tensorflow_device(device)) for device in copies)
        written = _OF_VARIABLE.times(number)
        ops, size = ops + written.ops, size + written.bytes_in(each.info.name, device)
    return Extent(ops, size)


def sums_of(
    plan: Plan,
    placements: Sequence[VariablePlacement],
    templates: Mapping[int, Template],
    rulebook: Rulebook,
) -> list[Sum]:
    """Return the sums of a step: of gradients, or of copies that are averaged.

    Args:
        plan: The plan.
        placements: The places of the variables.
        templates: The traced templates by the number of their examples.
        rulebook: The rules of the spec.
    """
    if plan.update.mode == "local":
        return list(_averaged(placements))
    if plan.clones_update_alone:
        return []
    return list(_Gradients(plan, placements, templates_of_towers(plan, templates), rulebook).sums())


def extent_of_sums(plan: Plan, sums: Sequence[Sum]) -> Extent:
    """Return what sums take with the aggregation of a plan.

    Args:
        plan: The plan.
        sums: The sums of a step, in the order in which they are made.
    """
    return Extent(*bytes_of_sums(sums, plan.update, lambda device: len(plan.tensorflow_device(device))))


def extent_of_boxes(plan: Plan, templates: Mapping[int, Template]) -> Extent:
    """Return what the chief of workers with graphs of their own has for the mailboxes of all of them.

    Args:
        plan: The plan.
        templates: The traced templates by the number of their examples.
    """
    if not isinstance(plan, WorkerPlan) or plan.update.mode != "sync" or not plan.worker.is_chief:
        return Extent()
    ops = size = 0
    for part in templates[plan.towers[0].batch].losses:
        for name in part.gradients:
            written = _OF_BOX.times(plan.worker.count)
            ops, size = ops + written.ops, size + written.bytes_in(f"{SCOPE}/{name}/worker_0/", 0)
    return Extent(ops, size)


def _averaged(placements: Sequence[VariablePlacement]) -> Iterator[Sum]:
    """Yield the sums of the copies that are averaged; those of statistics are left out."""
    for each in placements:
        if each.info.trainable:
            yield _sum(each, f"average/{each.info.name}", each.info.shape, each.copies, each.copies)


def _sum(
    of: VariablePlacement,
    name: str,
    shape: Sequence[int] | None,
    homes: Sequence[Device],
    destinations: Sequence[Device],
    owner: int | None = None,
) -> Sum:
    elements = None if shape is None else prod(shape)
    size = None if shape is None else size_in_bytes(tuple(shape), of.info.dtype)
    return Sum(name, elements, size, of.info.dtype, tuple(homes), tuple(destinations), owner)


@frozen
class _Gradients:
    plan: Plan
    placements: Sequence[VariablePlacement]
    templates: Sequence[Template]
    rulebook: Rulebook

    def sums(self) -> Iterator[Sum]:
        """Yield the sums of the gradients, in the order in which they are made."""
        towers, number = self._places(), 0
        by_weight: dict[str, list[VariablePlacement]] = {}
        for each in self.placements:
            by_weight.setdefault(each.info.weight, []).append(each)
        for part, weight, sparse in self._wanted():
            homes = [
                places.of(template.losses[part].gradients[weight].values.partition(":")[0]).device
                for places, template in zip(towers, self.templates, strict=True)
            ]
            for each in by_weight[weight]:
                for name, shape, destinations, owner in self._updated(each, homes[number % len(homes)]):
                    full = f"{name}/part_{part}" if part else name
                    yield _sum(each, full, None if sparse else shape, homes, destinations, owner)
                number += len(each.parts) or 1

    def _places(self) -> list[TowerPlaces]:
        """Return what knows where each tower makes its gradients: some are made beside their variables."""
        known: dict[int, Layout] = {}
        found = []
        for tower, template in zip(self.plan.towers, self.templates, strict=True):
            homes = {
                each.info.name: Placed(
                    each.copies[tower.index] if each.copies else each.placed.device, each.placed.reason
                )
                for each in self.placements
                if each.info.shard is None
            }
            if id(template) not in known:
                known[id(template)] = Layout(template, usage_of(template), self.rulebook)
            found.append(TowerPlaces(known[id(template)], tower, homes))
        return found

    def _wanted(self) -> list[tuple[int, str, bool]]:
        """Return the part of the loss and the weight of each gradient, and whether it consists of rows."""
        first, distinct = self.templates[0], {id(each): each for each in self.templates}.values()
        position = {node.name: at for at, node in enumerate(first.graph_def.node)}
        found = [
            (position[gradient.values.partition(":")[0]], part, name, gradient.indices is not None)
            for part, each in enumerate(first.losses)
            for name, gradient in each.gradients.items()
            if all(name in template.losses[part].gradients for template in distinct)
        ]
        return [(part, name, rows) for _, part, name, rows in sorted(found, key=lambda each: each[0])]

    def _updated(
        self, of: VariablePlacement, home: Device
    ) -> Iterator[tuple[str, Sequence[int], Sequence[Device], int | None]]:
        """Yield the name, shape and destinations of each sum for a variable, and the clone that owns it."""
        name, shape = of.info.name, of.info.shape
        if isinstance(self.plan, WorkerPlan):
            yield name, shape, (home,), None
        elif of.parts:
            for part in of.parts:
                yield part.shard.name, part.shard.shape, (of.copies[part.copy],), part.copy
        elif of.copies:
            yield name, shape, of.copies, None
        else:
            yield name, shape, (self.rulebook.updates(of).device,), None
