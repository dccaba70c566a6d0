"""Checks of clones, rules and links against the devices that there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.compatibility import changing_job, keeps_all, replication_of, slot_rules
from compiler.placement.rules import Rulebook, rule_text
from compiler.topology import Host, Topology
from compiler.towers import clone_count, lay_out_towers, workers_of
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors
from dsl.ir.place import PARAMETER_SERVER


def batches_fit_clones(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report a global batch that the clones do not divide, or a list with another number of batches."""
    clones, count = spec.clones, clone_count(spec, topology)
    if isinstance(clones.batch, tuple) and len(clones.batch) != count:
        yield errors.batch_list_length(clones.span_of("batch"), given=len(clones.batch), clones=count)
    if clones.batch is None and clones.global_batch is not None:
        rounds = spec.update.accumulate
        if clones.global_batch % (count * rounds):
            yield errors.uneven_batch(clones.global_batch, count, clones.span_of("global_batch"), rounds)


# --- groups of devices ------------------------------------------------------------------------------------


def groups_fit_devices(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report a group for which there are too few devices, and an index beyond the size of a group."""
    book = Rulebook(spec.place.rules, topology)
    reason = book.decide("clones")
    size = 1
    target = None if reason is None else reason.target
    if isinstance(target, ir.Groups):
        size, devices = target.size, len(topology.resolve_set(target.devices))
        if devices < size:
            yield errors.clones_exceed_group(target.span, size=size, devices=devices, label=spec.devices.span)
    for rule in spec.place.rules:
        if isinstance(rule.target, ir.GroupMember) and rule.target.index >= size:
            yield errors.no_group_member(
                rule.target.span, index=rule.target.index, size=size, several=size > 1
            )


# --- links ------------------------------------------------------------------------------------------------


def link_is_used(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Warn of `link` if no tensor is ever copied: the devices are all CPU devices of one process."""
    if spec.devices.link is not None and not spec.devices.jobs and not topology.select("gpu"):
        yield errors.link_without_effect(spec.devices.span_of("link"))


# --- sets of devices --------------------------------------------------------------------------------------


def targets_name_devices(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report a rule whose set of devices is empty, and clones without a device."""
    for rule in spec.place.rules:
        target = rule.target
        devices = target if isinstance(target, ir.DeviceSet) else getattr(target, "devices", None)
        if devices is not None and not topology.resolve_set(devices):
            yield errors.no_device(
                target.span or rule.span, what=f"`{rule.selector.role}`", text=rule_text(rule)
            )
    groups, reason = Rulebook(spec.place.rules, topology).clone_groups()
    if not groups and reason.rule is None:
        yield errors.no_device(spec.devices.span, what="`clones`", text=reason.text)


# --- workers with graphs of their own ---------------------------------------------------------------------


OF_EVERY_GRAPH = {"inputs", "ops", "summaries", "evaluation"}


def workers_are_whole(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report tasks without a clone, clones on parameter servers, and too many backup workers."""
    if replication_of(spec) == "in_graph":
        return
    workers = workers_of(lay_out_towers(spec, topology), topology)
    tasks = {device.host for device in topology.devices if device.job != PARAMETER_SERVER}
    span = next((each.span for each in spec.place.rules if each.selector.role == "clones"), None)
    busy = {host for host, _ in workers}
    for job, task in sorted(tasks - busy, key=str):
        yield errors.worker_without_clones(
            span or spec.clones.span or spec.devices.span, task=f"{job}[{task}]"
        )
    for job, task in sorted(busy - tasks, key=str):
        yield errors.clones_on_server(span, task=f"{job}[{task}]")
    sizes = [sum(tower.batch for tower in towers) for _, towers in workers]
    if spec.update.backup >= len(workers):
        yield errors.too_many_backups(
            spec.update.span_of("backup"),
            backup=spec.update.backup,
            workers=len(workers),
            most=max(len(workers) - 1, 0),
        )
    elif spec.update.backup and len(set(sizes)) > 1:
        yield errors.uneven_workers(spec.update.span_of("backup"), batches=", ".join(map(str, sizes)))
    yield from _rules_for_one_worker(spec, topology, [host for host, _ in workers])


def workers_can_change(spec: ir.Spec, _: Topology) -> Iterator[Diagnostic]:
    """Report what cannot be combined with workers that come and go."""
    job = changing_job(spec)
    if job is None:
        return
    clones, data, tasks, slots = spec.clones, spec.data, job.span_of("tasks"), slot_rules(spec)
    numbered = [each.target for each in spec.place.rules if _names_tasks(each.target)]
    alone = len(spec.devices.jobs) == 1 and keeps_all(spec)
    shards = data is not None and data.per_clone == "shard"
    kept = spec.update.compress is not None and spec.update.compress.name == "power_sgd"
    local = spec.update.mode == "local"
    written = f"tasks = {job.span_of_tasks}"
    for wrong, span, fault, (reason, advice) in (
        (job.least == 1, tasks, "begins with one worker", _TWO),
        (not (alone or local), tasks, "needs workers that each have all weights", _ALL),
        (isinstance(clones.batch, tuple), clones.span_of("batch"), f"{_CANNOT} a list of batches", _OWN),
        (clones.count is not None, clones.span_of("count"), f"{_CANNOT} `clones.count`", _OWN),
        (clones.global_batch, clones.span_of("global_batch"), f"{_CANNOT} `clones.global_batch`", _OWN),
        (slots, slots and slots[0].span, f"{_CANNOT} `slots -> sharded(clones)`", _PIECES),
        (numbered, numbered and numbered[0].span, f"{_CANNOT} a rule that names a task", _NUMBERED),
        (kept, spec.update.span_of("compress"), f"{_CANNOT} `compress = power_sgd`", _KEPT),
        (local, spec.update.span_of("mode"), f"{_CANNOT} `mode = local`", _TRAINED),
        (shards, shards and data and data.span_of("per_clone"), f"{_CANNOT} `per_clone = shard`", _SHARES),
    ):
        if wrong:
            at = span or tasks
            also = None if at == tasks else tasks
            yield errors.workers_cannot_change(
                at, written=written, fault=fault, reason=reason, advice=advice, job=also
            )


_CANNOT = "cannot be combined with"
_TWO = ("a sum over workers needs two of them", "begin with two")
_ALL = (
    "workers can only come and go if each has all weights and a graph of its own",
    "declare this job alone, with `mode = sync`, `replication = between_graph` and `variables -> replicated`",
)
_OWN = (
    "the clones of a step are those of the workers that are there",
    "give `clones.batch` as the examples of one clone: a step has those of all clones that are there",
)
_PIECES = (
    "the pieces would be cut anew whenever a worker comes or goes",
    "leave the rule out: each worker has the slots of all weights",
)
_KEPT = (
    "what a worker has not sent yet would be lost with it",
    "use `compress = bfloat16`, which keeps nothing from step to step",
)
_TRAINED = (
    "what a worker that leaves has trained since the last average would leave with it",
    "use `mode = sync`, or give `tasks` as one number",
)
_NUMBERED = ("that task may be absent", "name the devices of all workers, as in `worker[*].gpu[*]`")
_SHARES = (
    "each step takes the next examples of one order, whoever is there",
    "leave `per_clone` out: each worker takes its part of the batch of a step",
)


def _names_tasks(target: ir.Target) -> bool:
    devices = target if isinstance(target, ir.DeviceSet) else getattr(target, "devices", None)
    return devices is not None and any(each.tasks is not None for each in devices.patterns)


def _rules_for_one_worker(spec: ir.Spec, topology: Topology, hosts: Sequence[Host]) -> Iterator[Diagnostic]:
    """Report rules that put something of every worker's graph onto devices which are not each worker's own.

    Variables, their slots and their updates are shared, and may be anywhere.
    """
    for rule in spec.place.rules:
        if rule.selector.role not in OF_EVERY_GRAPH or not isinstance(rule.target, ir.DeviceSet):
            continue
        devices = topology.resolve_set(rule.target)
        if any(each.job == PARAMETER_SERVER for each in devices):
            continue
        for host in hosts:
            if devices and not any(each.host == host for each in devices):
                ref = f"{host[0]}[{host[1]}]"
                yield errors.other_workers_device(
                    rule.target.span or rule.span, worker=ref, device=devices[0].ref
                )
                break
