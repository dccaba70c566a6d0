"""Placement rules: which rule speaks for a thing, and which device it gives.

Rules are read top to bottom and the last one that matches wins. Where none speaks the defaults are those of
slim's `model_deploy`: clones on the GPUs (or the CPUs where there are none), variables on the CPU or
round-robin over the parameter servers, inputs on the worker's CPU, updates with the variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from attrs import frozen

from compiler.balance import spread_by_bytes
from compiler.plan import Placed, Tower, VariableInfo, VariablePlacement, Why
from compiler.topology import Device, Topology
from dsl import ir


@frozen
class Rulebook:
    """The rules of a `place` block, asked for one thing at a time."""

    rules: tuple[ir.Rule, ...]
    topology: Topology

    def decide(self, role: str, name: str | None = None) -> Why | None:
        """Return the rule that wins for `role` (and `name`, where its rules have globs), or None."""
        matching = [
            rule
            for rule in self.rules
            if rule.selector.role == role and _matches(rule.selector.pattern, name)
        ]
        if not matching:
            return None
        winner = matching[-1]
        return Why(rule_text(winner), "rule", winner, tuple(matching[:-1]))

    # --- clones -------------------------------------------------------------------------------------------

    def clone_groups(self) -> tuple[tuple[tuple[Device, ...], ...], Why]:
        """Return the devices, or groups of devices, that `place` gives to clones, in order."""
        why = self.decide("clones")
        if why is None:
            kind = "gpu" if self.topology.select("gpu") else "cpu"
            return tuple((each,) for each in self.topology.select(kind)), Why(
                f"clones -> {kind}[*]", "default"
            )
        target = _target(why)
        if isinstance(target, ir.Groups):
            devices = self.topology.resolve_set(target.devices)
            whole = range(0, len(devices) - target.size + 1, target.size)
            return tuple(devices[at : at + target.size] for at in whole), why
        return tuple((each,) for each in self._devices(target)), why

    # --- single roles -------------------------------------------------------------------------------------

    def inputs(self, tower: Tower | None = None) -> Placed:
        """Return where data is read: the rule's device, or CPU 0 of the worker (of `tower`'s, if given)."""
        host = tower.device.host if tower is not None else (None, 0)
        return self._single("inputs", self.topology.first_cpu(*host))

    def summaries(self) -> Placed:
        """Return where summaries are made."""
        return self._single("summaries", self.topology.first_cpu())

    def evaluation(self, default: Device) -> Placed:
        """Return where evaluation runs; `default` is the device of clone 0."""
        return self._single("evaluation", default)

    def global_step(self) -> Placed:
        """Return where the global step lives: with the first parameter server, or on this machine's CPU."""
        servers = self.topology.parameter_servers
        device = servers[0] if servers else self.topology.first_cpu()
        return Placed(device, Why(f"global_step -> {device.ref}", "default"))

    def updates(self, variable: VariablePlacement) -> Placed:
        """Return where the gradients of `variable` are aggregated: with it, unless a rule says otherwise."""
        why = self.decide("updates")
        if why is None:
            return Placed(variable.placed.device, Why(variable.info.name, "follows"))
        return Placed(self._devices(_target(why))[0], why)

    def _single(self, role: str, default: Device) -> Placed:
        why = self.decide(role)
        if why is None:
            return Placed(default, Why(f"{role} -> {default.ref}", "default"))
        return Placed(self._devices(_target(why))[0], why)

    # --- ops of a tower -----------------------------------------------------------------------------------

    def op(self, name: str, tower: Tower) -> Placed | None:
        """Return where a rule `ops(...)` puts the op called `name` inside `tower`; None where none speaks."""
        why = self.decide("ops", name)
        if why is None:
            return None
        target = _target(why)
        if isinstance(target, ir.GroupMember):
            return Placed(tower.devices[target.index], why)
        devices = self._devices(target)
        return Placed(devices[tower.index % len(devices)], why)

    # --- variables ----------------------------------------------------------------------------------------

    def variables(
        self, infos: Sequence[VariableInfo], towers: Sequence[Tower]
    ) -> tuple[VariablePlacement, ...]:
        """Place every variable; the answer is in the order of `infos`."""
        decided = [self.decide("variables", info.name) or self._default_variables() for info in infos]
        placed: dict[int, VariablePlacement] = {}
        load: dict[Device, int] = {}
        groups = dict.fromkeys(why.rule for why in decided)
        for rule in sorted(groups, key=_is_balanced):  # what is pinned loads the devices before balancing
            members = [at for at, why in enumerate(decided) if why.rule == rule]
            target = self._default_variable_target() if rule is None else rule.target
            for at, devices in zip(
                members, self._spread(target, [infos[at] for at in members], towers, load), strict=True
            ):
                info = infos[at]
                for device in devices:
                    load[device] = load.get(device, 0) + info.bytes + info.slot_bytes
                here = Placed(devices[0], decided[at])
                copies = devices if isinstance(target, ir.Replicated) else ()
                placed[at] = VariablePlacement(info, here, self._slots(info, here), copies)
        return tuple(placed[at] for at in range(len(infos)))

    def _spread(
        self,
        target: ir.Target,
        infos: Sequence[VariableInfo],
        towers: Sequence[Tower],
        load: dict[Device, int],
    ) -> list[tuple[Device, ...]]:
        if isinstance(target, ir.Replicated):
            homes = tuple(tower.device for tower in towers)
            return [homes for _ in infos]
        devices = self._devices(target)
        if isinstance(target, ir.Balanced):
            return [(each,) for each in spread_by_bytes(infos, devices, load)]
        return [(devices[at % len(devices)],) for at in range(len(infos))]

    def _slots(self, info: VariableInfo, variable: Placed) -> Placed:
        why = self.decide("slots", info.name)
        if why is None:
            return Placed(variable.device, Why(info.name, "follows"))
        return Placed(self._devices(_target(why))[0], why)

    def _default_variables(self) -> Why:
        if self.topology.parameter_servers:
            return Why("variables -> round_robin(ps[*])", "default")
        return Why(f"variables -> {self.topology.first_cpu().ref}", "default")

    def _default_variable_target(self) -> ir.Target:
        if self.topology.parameter_servers:
            return ir.RoundRobin(ir.DeviceSet((ir.DevicePattern("cpu", (0,), "ps"),)))
        cpu = self.topology.first_cpu()
        return ir.DeviceSet((ir.DevicePattern("cpu", (cpu.index,), cpu.job, (cpu.task,)),))

    def _devices(self, target: ir.Target) -> tuple[Device, ...]:
        if isinstance(target, ir.Balanced | ir.RoundRobin | ir.Groups):
            return self.topology.resolve_set(target.devices)
        if isinstance(target, ir.DeviceSet):
            return self.topology.resolve_set(target)
        raise TypeError(f"{type(target).__name__} names no devices of its own")


def rule_text(rule: ir.Rule) -> str:
    """Return a rule as it stands in the spec, white space folded."""
    return " ".join(rule.span.text.split()) if rule.span is not None else ""


def _matches(pattern: str | None, name: str | None) -> bool:
    return pattern is None or name is None or fnmatchcase(name, pattern)


def _target(why: Why) -> ir.Target:
    if why.rule is None:
        raise ValueError("a default has no rule to take a target from")
    return why.rule.target


def _is_balanced(rule: ir.Rule | None) -> bool:
    return rule is not None and isinstance(rule.target, ir.Balanced)
