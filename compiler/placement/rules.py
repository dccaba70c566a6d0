"""Placement rules: the rule that decides the place of a thing, and the device that it gives.

Rules are read from top to bottom, and the last one that matches decides. If none matches, the defaults are
those of TensorFlow-Slim's `model_deploy`: clones on the GPUs (or on the CPUs if there are none), variables on
the CPU or round-robin over the parameter servers, inputs and the optimizer's arithmetic on the worker's CPU,
updates beside their variables.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from attrs import frozen

from compiler.plan import Tower, VariablePlacement
from compiler.reasons import Placed, Reason
from compiler.topology import Device, Topology
from dsl import ir


@frozen
class Rulebook:
    """The rules of a `place` block.

    Attributes:
        rules: The rules in the order of the spec.
        topology: The devices.
    """

    rules: tuple[ir.Rule, ...]
    topology: Topology

    def decide(self, role: str, name: str | None = None, forward: str | None = None) -> Reason | None:
        """Return the rule that decides for a role, or None if none matches.

        Args:
            role: The role.
            name: The name of the thing, if rules of the role have globs.
            forward: The op that a gradient op differentiates, whose name also matches. If the rule matches
                that name alone, the gradient follows its forward op.
        """
        matching = [
            rule
            for rule in self.rules
            if rule.selector.role == role
            and (_matches(rule, name) or (forward is not None and _matches(rule, forward)))
        ]
        if not matching:
            return None
        winner, beaten = matching[-1], tuple(matching[:-1])
        decided = Reason(rule_text(winner), "rule", winner, beaten)
        if forward is not None and not _matches(winner, name):
            return Reason(forward, "follows", winner, beaten, cause=decided)
        return decided

    # --- clones -------------------------------------------------------------------------------------------

    def clone_groups(self) -> tuple[tuple[tuple[Device, ...], ...], Reason]:
        """Return the devices, or groups of devices, that `place` gives to clones, in order."""
        reason = self.decide("clones")
        if reason is None:
            kind = "gpu" if self.topology.select("gpu") else "cpu"
            reason = Reason(f"clones -> {kind}[*]", "default")
            return tuple((each,) for each in self.topology.select(kind)), reason
        target = reason.target
        if isinstance(target, ir.Groups):
            devices = self.devices(target)
            whole = range(0, len(devices) - target.size + 1, target.size)
            return tuple(devices[at : at + target.size] for at in whole), reason
        return tuple((each,) for each in self.devices(target)), reason

    # --- single roles -------------------------------------------------------------------------------------

    def inputs(self, tower: Tower | None = None) -> Placed:
        """Return the place where data is read, for all clones or for one tower.

        The towers use the devices of a rule in turn. Without a rule, data is read on CPU 0 of the worker.
        """
        if tower is None:
            return self._single("inputs", self.topology.first_cpu())
        return self._single("inputs", self.topology.first_cpu(*tower.device.host), tower.index)

    def summaries(self) -> Placed:
        """Return the place of the summary ops."""
        return self._single("summaries", self.topology.first_cpu())

    def evaluation(self, default: Device) -> Placed:
        """Return the place of evaluation; `default` is the device of clone 0."""
        return self._single("evaluation", default)

    def optimizer(self) -> Placed:
        """Return the place of a step's arithmetic that belongs to no variable: CPU 0 of the worker.

        This is the learning rate, the total loss and the metrics. TensorFlow-Slim calls it the optimizer's
        device.
        """
        return by_default("optimizer", self.topology.first_cpu())

    def global_step(self) -> Placed:
        """Return the place of the global step: the first parameter server, or else this machine's CPU."""
        servers = self.topology.parameter_servers
        return by_default("global_step", servers[0] if servers else self.topology.keeper)

    def on_cpu(self, kind: str, tower: Tower) -> Placed:
        """Return the place of those of a tower's ops for which GPUs have no kernels.

        Args:
            kind: What they are, for the reason, such as `strings`.
            tower: The tower, which is on a GPU.
        """
        return by_default(kind, self.topology.first_cpu(*tower.device.host))

    def updates(self, variable: VariablePlacement) -> Placed:
        """Return the place where the gradients of a shared variable are summed: beside it by default."""
        return variable.updates or Placed(
            variable.placed.device, following(variable.info.name, variable.placed)
        )

    def _single(self, role: str, default: Device, index: int = 0) -> Placed:
        reason = self.decide(role)
        if reason is None:
            return by_default(role, default)
        devices = self.topology.near(self.devices(reason.target))
        return Placed(devices[index % len(devices)], reason)

    # --- ops of a tower -----------------------------------------------------------------------------------

    def decide_op(self, name: str, tower: Tower, forward: str | None = None) -> Reason | None:
        """Return the rule `ops(...)` that decides for an op; the answer is the same for every clone.

        A rule for `evaluation` decides for the whole evaluation tower.

        Args:
            name: The name of the op in its tower.
            tower: The tower.
            forward: The name of the forward op whose gradient the op computes, or None.

        Returns:
            The rule, or None if no rule is for the op.
        """
        rule = tower.reason.rule
        if rule is not None and rule.selector.role == "evaluation":
            return None
        return self.decide("ops", name, forward)

    def op_device(self, reason: Reason, tower: Tower) -> Device:
        """Return the device in `tower` that a decision of `decide_op` means.

        Args:
            reason: The rule that decides, with the devices of its target.
            tower: The tower that has the op.
        """
        target = reason.target
        if isinstance(target, ir.GroupMember):
            return tower.devices[target.index]
        devices = self.topology.near(self.devices(target))
        return devices[tower.index % len(devices)]

    def devices(self, target: ir.Target | None) -> tuple[Device, ...]:
        """Return the devices that a target names, in the order in which they are used."""
        if isinstance(target, ir.Balanced | ir.RoundRobin | ir.Sharded | ir.Groups):
            return self.topology.resolve_set(target.devices)
        if isinstance(target, ir.DeviceSet):
            return self.topology.resolve_set(target)
        raise TypeError(f"{type(target).__name__} names no devices of its own")


def by_default(what: str, device: Device) -> Placed:
    """Return a place that no rule decides, with the rule that would say the same.

    Args:
        what: A pattern for what is placed.
        device: Its place.
    """
    return Placed(device, Reason(f"{what} -> {device.ref}", "default"))


def following(name: str, placed: Placed) -> Reason:
    """Return the reason of a thing that is somewhere because the thing called `name` is `placed` there.

    Args:
        name: The name of the thing that is followed.
        placed: Its place, and the reason for that.
    """
    return Reason(name, "follows", placed.reason.rule, cause=placed.reason)


def rule_text(rule: ir.Rule) -> str:
    """Return a rule as it is written in the spec, with white space folded."""
    return " ".join(rule.span.text.split()) if rule.span is not None else ""


def _matches(rule: ir.Rule, name: str | None) -> bool:
    pattern = rule.selector.pattern
    return pattern is None or name is None or fnmatchcase(name, pattern)
