"""What `suggest --vary` varies: clones, groups, aggregation and packing.

The examples of a step stay as many as they are, because their number decides what is learnt. What changes
nevertheless is said in a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.plan import Plan, WorkerPlan
from compiler.suggest.changes import Changes
from dsl.schema.functions import function_names

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
    """Yield clones that have several devices each.

    Args:
        plan: The plan.
        sizes: How many devices; by default, all numbers that divide the devices.
    """
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
    if batch != before and plan.update.batch_norm != "synchronized" and _normalizes(plan):
        note += f"; batch normalization takes its statistics from {batch} examples in place of {before}"
    return note


def _normalizes(plan: Plan) -> bool:
    """Whether a model has batch normalization."""
    return any(each.call.name == "BatchNormalization" for each in plan.model.layers)
