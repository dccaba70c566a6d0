"""Lints: checks that warn of something that is allowed but probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsl import ir
from dsl.checks.devices import Device, declared, named, written
from dsl.diagnostics import Diagnostic
from dsl.errors import lint
from dsl.ir.model import names_in
from dsl.ir.place import PARAMETER_SERVER
from dsl.ir.spec import Facts


def unused_constants(facts: Facts) -> Iterator[Diagnostic]:
    """Report constants of `let` that nothing uses."""
    for name, span in facts.constants.items():
        if name not in facts.used:
            yield lint.unused_constant(span, name=name)


def unused_bindings(facts: Facts) -> Iterator[Diagnostic]:
    """Report bindings that nothing uses; a model without loss and output is not checked."""
    for block in facts.blocks:
        results = _results(block)
        if not results:
            continue
        values = (each.value for each in block.bindings)
        used = {"_", *(name for part in (*results, *values) for name in names_in(part))}
        for binding in block.bindings:
            if used.isdisjoint(binding.names) and binding.name_span is not None:
                yield lint.unused_binding(binding.name_span, name=binding.name)
                continue
            for name, span in zip(binding.others, binding.other_spans, strict=False):
                if name not in used:
                    yield lint.unused_output(span, name=name)
            if binding.others and binding.name not in used and binding.name_span is not None:
                yield lint.unused_output(binding.name_span, name=binding.name)


def _results(block: ir.Model | ir.LayerBlock) -> list[Any]:
    results: list[Any] = [] if block.output is None else [block.output]
    results += [each.value for each in block.outputs] if isinstance(block, ir.Model) else []
    if isinstance(block, ir.Model):
        objectives = [term.objective for term in block.loss] + [metric.objective for metric in block.metrics]
        results += [term.tensor for term in block.tensor_terms]
        for each in objectives:
            results += [each.target, each.prediction, each.example_weights]
    return results


def unused_layers(facts: Facts) -> Iterator[Diagnostic]:
    """Report `layer` blocks that nothing uses."""
    for layer in facts.layers or ():
        if layer.name not in facts.used_layers and layer.span is not None:
            yield lint.unused_layer(layer.span, name=layer.name)


def unused_devices(facts: Facts) -> Iterator[Diagnostic]:
    """Report GPUs that no rule and no default uses."""
    devices, place, clones = facts.devices, facts.place, facts.clones
    if devices is None or place is None or clones is None:
        return
    gpus = declared(devices, ("gpu",))
    if not gpus:
        return
    used = _used(gpus, place, clones)
    owners: list[ir.Devices | ir.Job] = [*devices.jobs] or [devices]
    for owner in owners:
        job = owner.name if isinstance(owner, ir.Job) else None
        own = [gpu for gpu in gpus if gpu[0] == job]
        idle = [gpu for gpu in own if gpu not in used]
        at = owner.spans.get("gpu")
        if idle and at is not None:
            yield lint.unused_gpus([written(gpu) for gpu in idle], len(own), at)


def _used(gpus: list[Device], place: ir.Place, clones: ir.Clones) -> set[Device]:
    """Return the GPUs that a rule uses, including overridden rules, which another lint reports."""
    used: set[Device] = set()
    own = [rule for rule in place.rules if rule.selector.role == "clones"]
    if not own:
        used.update(_first([gpu for gpu in gpus if gpu[0] != PARAMETER_SERVER], clones.count))
    for rule in place.rules:
        target = rule.target
        if isinstance(target, (ir.DeviceSet, ir.Balanced, ir.RoundRobin, ir.Sharded, ir.Groups)):
            found = named(gpus, target if isinstance(target, ir.DeviceSet) else target.devices)
            if rule.selector.role == "clones":
                size = target.size if isinstance(target, ir.Groups) else 1
                found = _first(found, None if clones.count is None else clones.count * size)
            used.update(found)
    return used


def _first(gpus: list[Device], count: int | None) -> list[Device]:
    return gpus if count is None else gpus[:count]


def clone_shares(facts: Facts) -> Iterator[Diagnostic]:
    """Report devices that have more clones than others, and CPUs of the rule for clones that get no clone.

    GPUs that get nothing at all are reported by another lint.
    """
    devices, place, clones = facts.devices, facts.place, facts.clones
    if devices is None or place is None or clones is None or clones.count is None:
        return
    count, at = clones.count, clones.spans.get("count")
    rules = [rule for rule in place.rules if rule.selector.role == "clones"]
    target = rules[-1].target if rules else None
    size = target.size if isinstance(target, ir.Groups) else 1
    if isinstance(target, ir.Groups):
        target = target.devices
    everything = declared(devices)
    if isinstance(target, ir.DeviceSet):
        given = named(everything, target)
    else:
        trainers = [each for each in everything if each[0] != PARAMETER_SERVER]
        given = [each for each in trainers if each[2] == "gpu"] or [
            each for each in trainers if each[2] == "cpu"
        ]
    places = len(given) // size
    if at is None or not places:
        return
    if count > places and count % places:
        yield lint.uneven_clones(count, places, size, at)
    idle = [written(each) for each in given[count * size :] if each[2] == "cpu"]
    if count < places and idle and rules:
        yield lint.devices_without_clones(at, names=idle, of=len(given), rule=rules[-1].span)


def ineffective_rules(facts: Facts) -> Iterator[Diagnostic]:
    """Report rules that a later rule for the same ops, or for all ops, overrides completely."""
    rules = () if facts.place is None else facts.place.rules
    found: list[Diagnostic] = []
    later: dict[tuple[str, str | None], ir.Rule] = {}
    for rule in reversed(rules):
        role, pattern = rule.selector.role, rule.selector.pattern
        over = later.get((role, None)) or later.get((role, pattern))
        if over is not None and rule.span is not None and over.span is not None:
            found.append(lint.ineffective_rule(rule.span, later=over.span))
        later[role, None if pattern == "*" else pattern] = rule
    yield from reversed(found)
