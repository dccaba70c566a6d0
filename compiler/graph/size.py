"""Refuses a graph that TensorFlow cannot hold before it is built, and says what makes it so large.

The bytes are a lower bound: towers, variables, sums and mailboxes. Each different sum is written once, by the
functions that write it in a step, into nothing that keeps it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, frozen

from compiler.checks import CHECKS_OF_THE_SPEC
from compiler.checks.compatibility import gradients_can_be_summed
from compiler.figures import size
from compiler.graph.stamp.lookups import usage_of
from compiler.graph.tower.template import Gradient, Template
from compiler.graph.tower.traces import templates_of_towers
from compiler.placement.rules import Rulebook
from compiler.plan import Plan, VariablePlacement, WorkerPlan
from compiler.reasons import Placed
from compiler.step.mailboxes import SCOPE
from compiler.step.record import SMALL, Op, Rows, Tensor, Use, Value
from compiler.step.sums import Reduction, reduce_all
from compiler.step.sums.pack import fill_buckets
from compiler.step.writer import StepWriter
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors
from dsl.schema import arguments_of

MOST = (1 << 31) - 1
"""The most bytes of a message of protobuf, which a graph is when it is saved, or sent to a server."""

_SMALLER = ("collective", "hierarchical", "add_n")
"""Aggregations whose ops for a sum are not more than the clones, the best for many clones first."""

_OP_BYTES = 26
"""What a node has beside its name, its device and its inputs. `Identity` has the least: the lengths of itself
(3 bytes), of its name (2) and of its device (2), its type with a length (10) and the type of its elements,
an attribute with a name (9)."""

_INPUT_BYTES = 2
"""What an input has beside its name: its number as a field, and its length."""

_SHORTEST = 4
"""The letters of the shortest name inside a scope, which is `copy`."""

_OPS_OF_VARIABLE = 3
"""What each variable, copy or slot has: a handle, a first assignment, and a read."""

_OPS_OF_BOX = 3
"""What each mailbox of each worker has: its handle, what empties it and what is read of it."""

_OPS_OF_BELL = 9
"""What rings the bell of each worker."""

_WRITTEN = 256
"""The most clones whose sums are written to be counted."""


@frozen
class _Extent:
    """A number of ops, and the bytes that they take at least."""

    ops: int = 0
    bytes: int = 0

    def __add__(self, other: _Extent) -> _Extent:
        return _Extent(self.ops + other.ops, self.bytes + other.bytes)

    def times(self, number: int, of: int = 1) -> _Extent:
        """Return as much for a number of things, if this is of `of` things."""
        return _Extent(self.ops * number // of, self.bytes * number // of)


@frozen
class Measures:
    """What the bytes of a graph follow from."""

    placements: Sequence[VariablePlacement]
    slots: Mapping[str, int]
    templates: Mapping[int, Template]
    sparse: Sequence[str]


def require_small_enough(plan: Plan, measures: Measures) -> None:
    """Raise SpecError if the graph of a plan would certainly have more bytes than TensorFlow can hold.

    Raises:
        SpecError: At the aggregation or at the clones, whichever makes the graph so large.
    """
    towers, boxes = _of_towers(plan, measures.templates), _of_boxes(plan, measures.templates)
    others = _of_variables(plan, measures)
    made = _sums(plan, measures)
    sums = _of_sums(plan, made)
    total = towers.bytes + boxes.bytes + others.bytes + sums.bytes
    if total <= MOST:
        return
    room = MOST - (total - sums.bytes)
    better = [name for name in _SMALLER if _would_fit(plan, measures, made, name, room)]
    if better:
        span = plan.update.span_of("aggregate")
        named = plan.update.aggregate.name
        found = errors.sums_too_large(
            span,
            total=size(total),
            aggregate=named,
            ops=sums.ops,
            clones=len(plan.towers),
            better=[f"`aggregate = {each}`" for each in better],
            pieces=named in ("ring", "shuffle"),
        )
    else:
        found = _too_many(plan, total, towers.ops + others.ops, boxes)
    raise SpecError([found])


def too_large_to_run(plan: Plan, templates: Mapping[int, Template]) -> tuple[Diagnostic, ...]:
    """Return a warning if the clones of a plan alone would have more bytes than TensorFlow can hold."""
    towers, boxes = _of_towers(plan, templates), _of_boxes(plan, templates)
    total = towers.bytes + boxes.bytes
    return () if total <= MOST else (_too_many(plan, total, towers.ops, boxes, warn=True),)


def _would_fit(plan: Plan, measures: Measures, sums: Sequence[Reduction], name: str, room: int) -> bool:
    """Whether another aggregation can be used, and would write no more than there is room for."""
    spec = evolve(plan.spec, update=evolve(plan.update, aggregate=ir.Call(name)))
    if name == plan.update.aggregate.name or not _is_allowed(plan, spec):
        return False
    if any(gradients_can_be_summed(spec, measures.sparse)):
        return False
    return _of_sums(evolve(plan, spec=spec), sums).bytes <= room


def _is_allowed(plan: Plan, spec: ir.Spec) -> bool:
    """Whether a spec that differs from that of a plan in an attribute passes the checks."""
    return not any(found.is_error for check in CHECKS_OF_THE_SPEC for found in check(spec, plan.topology))


def _too_many(plan: Plan, total: int, ops: int, boxes: _Extent, *, warn: bool = False) -> Diagnostic:
    """Return what is said of too many clones, or of too many workers that send to one."""
    update = plan.update
    if boxes.ops > ops:
        assert isinstance(plan, WorkerPlan)
        span = update.span_of("replication")
        return errors.boxes_too_large(
            span, total=size(total), ops=boxes.ops, workers=plan.worker.count, warn=warn
        )
    apart = evolve(plan.spec, update=evolve(update, replication="between_graph"))
    advised = not isinstance(plan, WorkerPlan) and _is_allowed(plan, apart)
    span = plan.spec.clones.span_of("count") or plan.spec.devices.span
    clones = len(plan.towers)
    return errors.towers_too_large(
        span, total=size(total), ops=ops, clones=clones, between_graph=advised, warn=warn
    )


# --- towers, variables and mailboxes --------------------------------------------------------------------


def _of_towers(plan: Plan, templates: Mapping[int, Template]) -> _Extent:
    known: dict[int, tuple[_Extent, int]] = {}
    device = min(len(plan.tensorflow_device(each)) for each in plan.topology.devices)
    found = _Extent()
    for tower, template in zip(plan.towers, templates_of_towers(plan, templates), strict=True):
        if id(template) not in known:
            known[id(template)] = _of_template(template)
        own, names = known[id(template)]
        if plan.update.schedule is not None:  # each micro-batch has ops of its own
            own, names = own.times(plan.micro_batches), names * plan.micro_batches
        found += own + _Extent(0, own.ops * device + names * len(tower.op_name("x")[:-1]))
    return found


def _of_template(template: Template) -> tuple[_Extent, int]:
    """Return the nodes that each tower has, without their devices, and the names that get a scope.

    What reads weights instead of the ports of the template, and what looks up rows, is left out. So are
    inputs that come from ports, as their names are not known here.
    """
    usage = usage_of(template)
    ports = {node.name for node in template.graph_def.node if node.op == "Placeholder"}
    nodes = taken = names = 0
    for node in template.graph_def.node:
        if node.name in ports or node.name in usage.gone or node.name in usage.lookups:
            continue
        from_ports = [len(each) for each in node.input if each in ports]
        nodes += 1
        taken += node.ByteSize() - len(node.device) - sum(from_ports)
        names += 1 + len(node.input) - len(from_ports)
    return _Extent(nodes, taken), names


def _of_variables(plan: Plan, measures: Measures) -> _Extent:
    found = _Extent()
    for each in measures.placements:
        copies = each.copies or (each.placed.device,)
        slots = measures.slots.get(each.info.name, 0) if not each.parts else 0
        device = min(len(plan.tensorflow_device(device)) for device in copies)
        found += _chain(_OPS_OF_VARIABLE, each.info.name, device).times(len(copies) * (1 + slots))
    return found


def _of_boxes(plan: Plan, templates: Mapping[int, Template]) -> _Extent:
    """Return what the chief of workers with graphs of their own has for the mailboxes and bells of all.

    Small gradients may have a box together.
    """
    found = _Extent()
    if not isinstance(plan, WorkerPlan) or plan.update.mode != "sync" or not plan.worker.is_chief:
        return found
    template = templates[plan.towers[0].batch]
    gradients = [each for part in template.losses for each in part.gradients.items()]
    alone = [name for name, gradient in gradients if not _is_small(template, gradient)]
    for name in [*alone, ""] if len(alone) < len(gradients) else alone:
        found += _chain(_OPS_OF_BOX, f"{SCOPE}/{name}/worker_0/", 0).times(plan.worker.count)
    bells = 0 if plan.keeps_all else plan.worker.count
    return found + _chain(_OPS_OF_BELL, "cluster/bell/worker_0/", 0).times(bells)


def _is_small(template: Template, gradient: Gradient) -> bool:
    """Whether a gradient may go to a server with others."""
    info = template.results[gradient.values]
    return gradient.indices is None and (Tensor("", info.dtype, info.shape).bytes or 0) <= SMALL


def _chain(ops: int, scope: str, device: int) -> _Extent:
    """Return ops in a scope, each of which takes one of the others."""
    name = len(scope) + _SHORTEST
    return _Extent(ops, ops * (_OP_BYTES + name + device + _INPUT_BYTES + name))


# --- sums -----------------------------------------------------------------------------------------------


def _sums(plan: Plan, measures: Measures) -> list[Reduction]:
    """Return the sums of a step: of gradients, or of copies that are averaged."""
    if plan.update.mode == "local":
        trained = (each for each in measures.placements if each.info.trainable)
        return [_sum(each, "average", each.info.shape, _copies(each), _copies(each)) for each in trained]
    return [] if plan.clones_update_alone else list(_gradients(plan, measures))


def _gradients(plan: Plan, measures: Measures) -> Iterator[Reduction]:
    rulebook = Rulebook(plan.spec.place.rules, plan.topology)
    template = measures.templates[plan.towers[0].batch]
    parts = Counter(name for part in template.losses for name in part.gradients)
    homes = [Placed(tower.device, tower.reason) for tower in plan.towers]
    for each in measures.placements:
        name, shape = each.info.name, None if each.info.weight in measures.sparse else each.info.shape
        for _ in range(parts[each.info.weight]):
            if isinstance(plan, WorkerPlan):
                yield _sum(each, name, shape, homes, homes[:1])
            elif each.parts:
                for part in each.parts:
                    shape = None if shape is None else part.shard.shape
                    yield _sum(each, part.shard.name, shape, homes, homes[:1], owner=0)
            else:
                needed = _copies(each) if each.copies else [rulebook.updates(each)]
                yield _sum(each, name, shape, homes, needed)


def _copies(of: VariablePlacement) -> list[Placed]:
    return [Placed(each, of.placed.reason) for each in of.copies]


def _sum(
    of: VariablePlacement,
    name: str,
    shape: tuple[int, ...] | None,
    homes: Sequence[Placed],
    destinations: Sequence[Placed],
    *,
    owner: int | None = None,
) -> Reduction:
    own = Tensor("", of.info.dtype, (None, *of.info.shape[1:]) if shape is None else shape)
    value: Value = own if shape is not None else Rows(own, Tensor("", "int64", (None,)))
    return Reduction(name, [value] * len(homes), homes, destinations, StepWriter("aggregate"), owner=owner)


def _kind(of: Reduction, most: int) -> tuple[object, ...]:
    """Return what sums have in common that have as many ops."""
    value, places = of.values[0], (of.destinations[0].device, len(of.destinations), of.owner)
    return places if isinstance(value, Rows) else (*places, value.dtype, min(value.elements or 0, most))


def _of_sums(plan: Plan, sums: Sequence[Reduction]) -> _Extent:
    """Return what sums take with the aggregation of a plan."""
    update, clones = plan.update, len(plan.towers)
    if clones == 1 or not sums:
        return _Extent()
    arguments = arguments_of("aggregation", update.aggregate).values()
    most = max(clones, *(each for each in arguments if isinstance(each, int)), 1)
    together = [[at] for at in range(len(sums))]
    if update.pack is not None:
        together = fill_buckets(sums, update.pack)
    found, known = _Extent(), dict[tuple[object, ...], _Extent]()
    for members in together:
        kind = tuple(_kind(sums[at], most) for at in members)
        if kind not in known:
            known[kind] = _written(plan, [sums[at] for at in members])
        found += known[kind]
    return found


def _written(plan: Plan, sums: Sequence[Reduction]) -> _Extent:
    """Return what is written for sums that travel together.

    What more than some clones write follows from what these write, and half of them: it grows with their
    number or, as the pieces of a ring do, with its square, until each element is a piece.
    """
    clones = len(sums[0].homes)
    if clones <= _WRITTEN:
        return _counted(plan, sums, clones)
    half, whole = (_counted(plan, sums, number) for number in (_WRITTEN // 2, _WRITTEN))
    values = [each.values[0] for each in sums]
    elements = [clones if isinstance(each, Rows) else each.elements or 0 for each in values]
    beyond = max(0, min(clones, sum(elements)) - _WRITTEN)
    bent = _Extent(max(0, whole.ops - 2 * half.ops), max(0, whole.bytes - 2 * half.bytes))
    return whole.times(clones, _WRITTEN) + bent.times(2 * clones * beyond, _WRITTEN**2)


def _counted(plan: Plan, sums: Sequence[Reduction], clones: int) -> _Extent:
    """Return what is written for the sums of the first clones."""
    counted = _Counted(plan)
    writer = StepWriter("aggregate", str, ops=counted)
    first = slice(clones)
    reductions = [
        Reduction(
            *(each.name, each.values[first], each.homes[first], each.destinations[first], writer),
            owner=each.owner,
        )
        for each in sums
    ]
    reduce_all(reductions, plan.update)
    return counted.extent


class _Counted(list[Op | Use]):
    """What a writer writes, which is counted and not kept."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.extent = _Extent()
        self._plan = plan

    def append(self, op: Op | Use) -> None:
        assert isinstance(op, Op)
        if op.type == "Const":  # others may take it, too
            return
        names = sum(_INPUT_BYTES + len(each.op) for each in op.inputs if each.op and each.value is None)
        device = len(self._plan.tensorflow_device(op.device))
        self.extent += _Extent(1, _OP_BYTES + len(op.name) + device + names)
