"""What `suggest` changes in a spec: rules for variables and slots, clones, aggregation and packing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, field, frozen

from compiler.placement.rules import rule_text
from compiler.placement.variable_rules import spread_by_bytes
from compiler.plan import Plan, WorkerPlan
from compiler.topology import Device, Topology
from dsl import ir
from dsl.ir.place import PARAMETER_SERVER
from dsl.schema.functions import function_names


@frozen
class Changes:
    """Rules and attributes that are not those of a spec."""

    rules: Mapping[str, tuple[str, ...]] = field(factory=dict)  # the new rules of each role, as text
    # The new values of attributes by block and name, as text, such as `{("update", "pack"): "4MiB"}`.
    values: Mapping[tuple[str, str], str] = field(factory=dict)
    # What stays equal, and what does not, by the part of the spec that is varied.
    notes: Mapping[str, str] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rules or self.values)

    def having(self, other: Changes) -> Changes:
        """Return these changes and others, which come first."""
        return Changes(
            {**self.rules, **other.rules}, {**self.values, **other.values}, {**self.notes, **other.notes}
        )

    def text(self) -> str:
        """Return the rules and values as text."""
        rules = [rule for of_role in self.rules.values() for rule in of_role]
        values = [f"{block}.{name} = {value}" for (block, name), value in self.values.items()]
        return ", ".join([*rules, *values])

    def without_role(self, role: str) -> Changes:
        """Return these changes without the rules of a role."""
        return evolve(self, rules={each: rules for each, rules in self.rules.items() if each != role})

    def parts(self) -> Sequence[Changes]:
        """Return what is left if one of the changes that need no other is taken back: one for each."""
        free = [each for each in self.rules if each != "clones"]
        found = [self.without_role(each) for each in free]
        for key in self.values:
            if key[0] == "update":
                values = {each: value for each, value in self.values.items() if each != key}
                notes = {each: note for each, note in self.notes.items() if each != key[1]}
                found.append(evolve(self, values=values, notes=notes))
        return found


# --- the rules for variables, and for their slots, that are tried -----------------------------------------


EVEN = 1.01
"""Variables are shared out evenly if no device has more than this times an equal share of their bytes."""


def variable_changes(plan: Plan, sizes: Sequence[int] = ()) -> Iterator[Changes]:
    """Yield other places of all variables of a plan, in which no clone keeps a part of the slots."""
    slots = {"slots": _rules_of_slots(plan)} if len(plan.all_towers) > 1 else {}
    for rule in variable_rules(plan.topology, sizes):
        yield Changes({"variables": (rule,), **slots})


def slot_changes(plan: Plan) -> Iterator[Changes]:
    """Yield that each of several clones keeps a part of the slots, which checks refuse without copies."""
    if len(plan.all_towers) > 1:
        yield Changes({"slots": ("slots -> sharded(clones)", *_rules_of_slots(plan))})


def _rules_of_slots(plan: Plan) -> tuple[str, ...]:
    """Return the rules of a spec for slots, without those that cut them over clones."""
    rules = (each for each in plan.spec.place.rules if each.selector.role == "slots")
    return tuple(rule_text(each) for each in rules if not isinstance(each.target, ir.OverClones))


def variable_rules(topology: Topology, sizes: Sequence[int] = ()) -> tuple[str, ...]:
    """Return the targets for all variables of a model that make sense on some devices, as text.

    Args:
        sizes: The bytes of the variables with their slots, if they are not to be cut without need: pieces are
            not tried on devices on which whole variables can be shared out evenly.
    """
    targets: list[str] = []
    if topology.parameter_servers:
        sets = [(PARAMETER_SERVER, topology.parameter_servers)]
    else:
        sets = [(kind, topology.select(kind)) for kind in ("cpu", "gpu")]
    for name, devices in sets:
        if len(devices) > 1:
            targets.append(f"balanced({name}[*])")
            if not (sizes and _can_be_even(sizes, devices)):
                targets.append(f"sharded({name}[*])")
            targets += [f"round_robin({name}[*])", f"{name}[0]"]
        elif devices:
            targets.append(f"{name}[0]")
    if topology.parameter_servers:
        targets.append("cpu[0]")  # that of the chief, which sends itself nothing
        if len(topology.select("cpu")) > 1:
            targets.append("balanced(cpu[*])")  # each worker sends itself nothing of its part
    targets.append("replicated")
    return tuple(f"variables -> {each}" for each in targets)


def _can_be_even(sizes: Sequence[int], devices: Sequence[Device]) -> bool:
    """Whether `balanced` gives each of some devices about as many bytes."""
    names = [str(at) for at in range(len(sizes))]
    loads = dict.fromkeys(devices, 0)
    for device, size in zip(spread_by_bytes(names, sizes, devices, {}), sizes, strict=True):
        loads[device] += size
    return max(loads.values()) <= EVEN * sum(sizes) / len(devices)


# --- what `suggest --vary` varies: clones, groups, aggregation and packing --------------------------------
#
# The examples of a step stay as many as they are, because their number decides what is learnt. What changes
# nevertheless is said in a note.


VARIED = ("clones", "aggregate", "pack", "groups")
"""What can be asked for."""

NOT_FORECAST = "collective"
"""The aggregation that is not tried, because what TensorFlow's collectives send is not forecast."""

PACKS = ("none", "1MiB", "16MiB")
"""The sizes of buckets that are tried."""

_FOR_SUMS = "gradients are summed in another order, which changes their last digits"


def aggregations(plan: Plan) -> Iterator[Changes]:
    """Yield the other aggregations of a plan with several clones."""
    for name in function_names("aggregation") if len(plan.towers) > 1 else ():
        if name not in (NOT_FORECAST, plan.update.aggregate.name):
            yield Changes({}, {("update", "aggregate"): name}, {"aggregate": _FOR_SUMS})


def packs(plan: Plan) -> Iterator[Changes]:
    """Yield other sizes of buckets for a plan with several clones."""
    for size in PACKS if len(plan.towers) > 1 else ():
        if (size == "none") != (plan.update.pack is None) or size != "none":
            yield Changes({}, {("update", "pack"): size}, {"pack": _FOR_SUMS})


def why_clones_stay(plan: Plan) -> str | None:
    """Return why the number of clones cannot be varied with an equal batch, or None if it can."""
    if isinstance(plan, WorkerPlan):
        return "each worker has a graph of its own"
    if plan.update.mode != "sync":
        return f"with `mode = {plan.update.mode}` it decides how often weights are updated"
    if isinstance(plan.spec.clones.batch, tuple):
        return "`clones.batch` is a list"
    if any(each.job is not None for each in plan.topology.devices):
        return "the devices are those of a cluster"
    return None


def clone_counts(plan: Plan) -> Iterator[Changes]:
    """Yield other numbers of clones, each on a device of the kind that the clones of a plan have."""
    kind = plan.towers[0].device.kind
    devices = len(plan.topology.select(kind))
    for count in range(devices, 0, -1):
        if count == len(plan.towers) and all(len(each.devices) == 1 for each in plan.towers):
            continue
        target = (
            f"{kind}[*]" if count == devices else f"{kind}[0..{count - 1}]" if count > 1 else f"{kind}[0]"
        )
        found = _with_clones(plan, count, f"clones -> {target}")
        if found is not None:
            yield found


def groups(plan: Plan, sizes: tuple[int, ...] = ()) -> Iterator[Changes]:
    """Yield clones with several devices each: by default, all numbers that divide the devices."""
    kind = plan.towers[0].device.kind
    devices = len(plan.topology.select(kind))
    tried = sizes or tuple(size for size in range(2, devices + 1) if devices % size == 0)
    for size in tried:
        count = max(1, devices // size)
        if len(plan.towers[0].devices) != size or len(plan.towers) != count:
            rule = f"clones -> groups({kind}[*], size = {size})"
            found = _with_clones(plan, count, rule)
            if found is not None:
                yield Changes({**found.rules, "ops": ()}, found.values, found.notes)


def _with_clones(plan: Plan, count: int, rule: str) -> Changes | None:
    """Return the changes to a number of clones, or None if these cannot share the examples of a step."""
    whole, micro, clones = plan.global_batch, plan.micro_batches, plan.spec.clones
    if whole % (count * micro) or why_clones_stay(plan) is not None:
        return None
    batch = whole // (count * micro)
    values: dict[tuple[str, str], str] = {}
    if clones.global_batch is None:
        values["clones", "batch"] = str(batch)
    if clones.count is not None:
        values["clones", "count"] = str(count)
    return Changes({"clones": (rule,)}, values, {"clones": _note(plan, count, batch)})


def _note(plan: Plan, count: int, batch: int) -> str:
    before = plan.towers[0].batch
    note = (
        f"a step has {plan.global_batch} examples as before: {count} times {batch} "
        f"in place of {len(plan.towers)} times {before}"
    )
    normalizes = any(each.call.name == "BatchNormalization" for each in plan.model.layers)
    if batch != before and plan.update.batch_norm != "synchronized" and normalizes:
        note += f"; batch normalization takes its statistics from {batch} examples in place of {before}"
    return note
