"""The table of update modes, aggregations, placements and numerics that cannot be combined.

The checks of a plan, their messages, the table of the reference and the combinations of `verify` are made
from it. To forbid a combination, add a row here; a new aspect is a line in `facts_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from attrs import field, frozen

from dsl import ir
from dsl.ir.place import PARAMETER_SERVER
from dsl.schema import functions

Aspect: TypeAlias = Literal[
    "mode",
    "aggregate",
    "pack",
    "compress",
    "variables",
    "slots",
    "optimizer",
    "gradients",
    "precision",
    "batch_norm",
    "accumulate",
    "schedule",
    "clones",
    "staleness",
    "average_every",
    "average_slots",
    "replication",
    "backup",
    "machines",
    "deterministic",
]
Facts: TypeAlias = Mapping[Aspect, frozenset[str]]
"""The values that a spec has for each aspect. An aspect that is missing is not known yet."""


@frozen
class Conflict:
    """Values of a spec that cannot be combined."""

    code: str
    # Aspects with values. The conflict exists if each aspect has one of its values. The diagnostic points at
    # the first aspect, and also at the second.
    when: tuple[tuple[Aspect, tuple[str, ...]], ...]
    message: str  # what is wrong; `{aspect}` is replaced by the value of an aspect
    reason: str
    nearest: str = field(repr=False)  # what to write instead

    def holds(self, facts: Facts) -> bool:
        """Whether a spec with these facts has this conflict."""
        return all(not facts.get(aspect, frozenset()).isdisjoint(values) for aspect, values in self.when)

    def title(self, facts: Facts) -> str:
        """Return the message for a spec with these facts."""
        values = {aspect: " or ".join(sorted(facts[aspect] & {*these})) for aspect, these in self.when}
        return self.message.format(**values)


COMPRESSIONS = tuple(each.name for each in functions.COMPRESSIONS)
MODES: tuple[ir.Mode, ...] = get_args(ir.Mode)
AGGREGATIONS = tuple(each.name for each in functions.AGGREGATIONS)
VARIABLES = ("shared", "spread", "sharded", "replicated")
JOINING = ("Adafactor", "Lamb")
"""Optimizers whose update of an element always depends on other elements of its weight."""

_Is: TypeAlias = tuple[Aspect, tuple[str, ...]]
_SHARED: _Is = ("variables", ("shared", "spread", "sharded"))
_BETWEEN: _Is = ("replication", ("between_graph",))

CONFLICTS = (
    Conflict(
        "TFD520",
        (("variables", ("replicated",)), ("mode", ("async",))),
        "`variables -> replicated` cannot be combined with `mode = async`",
        "clones that update whenever they are ready have nothing that would keep their copies equal",
        "place the variables on devices that all clones share, such as `variables -> balanced(...)`, or use"
        " `mode = local`, which trains a copy for each clone and averages the copies",
    ),
    Conflict(
        "TFD548",
        (("optimizer", JOINING), ("variables", ("sharded",))),
        "`{optimizer}` cannot be combined with `variables -> sharded(...)`",
        "its update of one element depends on others of the same variable, which may be on another device",
        "use another optimizer, such as `Adam`, or `optimizer { ... }` with an optimizer of its own for the"
        " sharded variables, or keep the variables whole with `balanced(...)`",
    ),
    Conflict(
        "TFD549",
        (("slots", ("over clones without copies",)), _SHARED),
        "`slots -> sharded(clones)` needs `variables -> replicated`",
        "each clone updates a part of the variables in a copy that it has, and sends the new values to the"
        " other copies",
        "replicate the variables, or leave the rule out: slots are beside their variables, and those of"
        " `variables -> sharded(...)` are in pieces as well",
    ),
    Conflict(
        "TFD549",
        (("slots", ("over clones",)), ("mode", ("local",))),
        "`slots -> sharded(clones)` cannot be combined with `mode = local`",
        "every clone trains a copy of its own, with slots for the whole of it",
        "leave the rule out, or use `mode = sync`",
    ),
    Conflict(
        "TFD549",
        (("aggregate", ("collective",)), ("slots", ("over clones",))),
        "`aggregate = collective` cannot be combined with `slots -> sharded(clones)`",
        "CollectiveReduce sends every device the whole sum, and each clone needs that of its part alone",
        "use `aggregate = ring`, which passes each part on until its sum is where it is needed",
    ),
    Conflict(
        "TFD548",
        (("optimizer", JOINING), ("slots", ("over clones",))),
        "`{optimizer}` cannot be combined with `slots -> sharded(clones)`",
        "its update of one element depends on others of the same variable, which another clone may update",
        "use another optimizer, such as `Adam`, or `optimizer { ... }` with an optimizer of its own for the"
        " variables whose slots are cut, or leave the rule for slots out",
    ),
    Conflict(
        "TFD521",
        (("aggregate", AGGREGATIONS[1:]), ("mode", ("async",))),
        "`aggregate = {aggregate}` cannot be combined with `mode = async`",
        "every clone applies its own gradient, so there is no sum to make",
        "leave `aggregate` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD521",
        (("pack", ("on",)), ("mode", ("async",))),
        "`pack` cannot be combined with `mode = async`",
        "every clone applies its own gradient, so nothing is sent that could be packed",
        "leave `pack` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD521",
        (("compress", COMPRESSIONS), ("mode", ("async",))),
        "`compress` cannot be combined with `mode = async`",
        "every clone applies its own gradient to the variables themselves, so there is no sum that could be"
        " sent otherwise",
        "leave `compress` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("compress", COMPRESSIONS), ("mode", ("local",))),
        "`compress` cannot be combined with `mode = local`",
        "weights are sent, whose small changes would be lost if they were rounded, and no gradients",
        "leave `compress` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD522",
        (("compress", COMPRESSIONS), ("machines", ("one",))),
        "`compress` has no meaning on one machine",
        "it concerns gradients that are sent from task to task, and the spec declares the devices of one"
        " machine only",
        "leave `compress` out, or declare a job `worker` in `devices`",
    ),
    Conflict(
        "TFD528",
        (("compress", ("power_sgd",)), _BETWEEN, _SHARED),
        "`compress = power_sgd` cannot be combined with `replication = between_graph` and variables that"
        " workers share",
        "what a matrix lacks is kept by each worker, and the chief sums what is in mailboxes on the servers",
        "use `compress = bfloat16`, or `variables -> replicated`, with which workers send each other sums",
    ),
    Conflict(
        "TFD528",
        (("compress", ("power_sgd",)), ("replication", ("in_graph",)), ("machines", ("several",))),
        "`compress = power_sgd` cannot be combined with `replication = in_graph`",
        "what a matrix lacks is kept by each worker, and one graph sums the gradients of all clones at once",
        "use `compress = bfloat16`, or `variables -> replicated` with `replication = between_graph`",
    ),
    Conflict(
        "TFD524",
        (("compress", ("power_sgd",)), ("precision", ("mixed_float16",))),
        "`compress = power_sgd` cannot be combined with `precision = mixed_float16`",
        "what a step lacks is added in the next one, for which the scale of the loss may be another",
        "use `precision = mixed_bfloat16`, which needs no scale, or `compress = bfloat16`",
    ),
    Conflict(
        "TFD522",
        (("staleness", ("on", "zero")), ("mode", ("sync", "local"))),
        "`staleness` has no meaning under `mode = {mode}`",
        "all clones take their steps at the same time, so none is ahead of another",
        "leave `staleness` out, or use `mode = async`",
    ),
    Conflict(
        "TFD522",
        (("average_every", ("on",)), ("mode", ("sync", "async"))),
        "`average_every` has no meaning under `mode = {mode}`",
        "the clones share their weights at every step, so there are no copies to average",
        "leave `average_every` out, or use `mode = local`",
    ),
    Conflict(
        "TFD522",
        (("average_slots", ("on",)), ("mode", ("sync", "async"))),
        "`average_slots` has no meaning under `mode = {mode}`",
        "slots are only averaged if each clone trains a copy of its own",
        "leave `average_slots` out, or use `mode = local`",
    ),
    Conflict(
        "TFD522",
        (("backup", ("on",)), ("replication", ("in_graph",))),
        "`backup` has no meaning under `replication = in_graph`",
        "in one graph the gradients of all clones are parts of one step, so it cannot go on without some",
        "leave `backup` out, or use `replication = between_graph` on a cluster",
    ),
    Conflict(
        "TFD523",
        (("aggregate", ("collective",)), ("gradients", ("sparse",)), ("mode", ("sync",))),
        "`aggregate = collective` cannot sum the rows of a table",
        "CollectiveReduce sums tensors of one shape, and every clone has rows of its own",
        "use `aggregate = ring`, which spreads the work as evenly and sums rows too",
    ),
    Conflict(
        "TFD528",
        (("gradients", ("of given weights",)), _BETWEEN),
        "weights that the model changes itself cannot be trained with `replication = between_graph`",
        "a gradient is applied to the value that a layer gave the weight, as `SpectralNormalization` does,"
        " and workers send gradients alone",
        "use `replication = in_graph`",
    ),
    Conflict(
        "TFD774",
        (("aggregate", ("collective",)), ("machines", ("several",))),
        "`aggregate = collective` cannot be combined with the tasks of a cluster",
        "TensorFlow's collectives wait forever if a task is missing, and after one failed step a"
        " server refuses them until it is started again",
        "use `aggregate = ring`, which sends the same parts in the same order, and goes on when a task is"
        " back",
    ),
    Conflict(
        "TFD524",
        (("precision", ("mixed_float16",)), ("mode", ("async", "local"))),
        "`precision = mixed_float16` cannot be combined with `mode = {mode}`",
        "all clones share the scale of the loss, which depends on steps that they take at the same time",
        "use `precision = mixed_bfloat16`, which needs no scale, or `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("batch_norm", ("synchronized",)), ("mode", ("async", "local"))),
        "`batch_norm = synchronized` cannot be combined with `mode = {mode}`",
        "statistics of the whole batch need all clones at the same step",
        "use `batch_norm = first`, or `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("batch_norm", ("mean",)), ("mode", ("async",))),
        "`batch_norm = mean` cannot be combined with `mode = async`",
        "there is no step that has the statistics of all clones",
        "use `batch_norm = first`, or `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("batch_norm", ("synchronized",)), ("accumulate", ("on",))),
        "`batch_norm = synchronized` cannot be combined with `accumulate`",
        "the whole batch is not known before the last of its micro-batches",
        "use `batch_norm = mean`, or larger batches instead of `accumulate`",
    ),
    Conflict(
        "TFD519",
        (("schedule", ("on",)), ("accumulate", ("off",))),
        "`schedule` needs `accumulate`",
        "the devices of a clone work on several micro-batches at the same time, and a step has only one",
        "write `accumulate = 8`, or another number of micro-batches, or leave `schedule` out",
    ),
    Conflict(
        "TFD519",
        (("schedule", ("on",)), ("clones", ("one device each",))),
        "`schedule` needs clones with groups of devices",
        "the stages of a pipeline are the devices of a group, and here a clone has one device",
        "write `clones -> groups(gpu[*], size = 2)`, and with `ops(...) -> group[1]` where the second stage"
        " begins, or leave `schedule` out",
    ),
    Conflict(
        "TFD524",
        (("deterministic", ("on",)), ("mode", ("async",))),
        "`deterministic` cannot be combined with `mode = async`",
        "clones update in the order in which they happen to be ready, which differs from run to run",
        "leave `deterministic` out, or use `mode = sync` or `mode = local`",
    ),
    Conflict(
        "TFD525",
        (("staleness", ("zero",)), ("mode", ("async",))),
        "`staleness = 0` lets no clone begin",
        "with its first update a clone is one step ahead of the others",
        "use `staleness = 1`, or `mode = sync`, in which all clones are always at the same step",
    ),
    Conflict(
        "TFD526",
        (_BETWEEN, ("machines", ("one",))),
        "`replication = between_graph` needs a job `worker`",
        "it means a graph for each worker, and the spec declares the devices of one machine only",
        'leave `replication` out, or declare `job "worker"` and `job "ps"` in `devices`',
    ),
    Conflict(
        "TFD528",
        (("mode", ("local",)), _BETWEEN, _SHARED),
        "`mode = local` and `replication = between_graph` need `variables -> replicated`",
        "every clone trains a copy of its own, which only the graph of its worker has",
        "write `variables -> replicated` in `place`, or leave `replication` out: one graph has all copies,"
        " wherever they are",
    ),
    Conflict(
        "TFD528",
        (("variables", ("replicated",)), _BETWEEN, _SHARED),
        "`variables -> replicated` for some variables cannot be combined with `replication = between_graph`",
        "workers either have all weights and send each other sums, or share the variables and send gradients"
        " there",
        "replicate all variables, or place all on the parameter servers, such as"
        " `variables -> balanced(ps[*])`, or use `replication = in_graph`",
    ),
    Conflict(
        "TFD528",
        (("slots", ("over clones",)), ("compress", ("power_sgd",))),
        "`slots -> sharded(clones)` cannot be combined with `compress = power_sgd`",
        "what a matrix lacks is found from the whole sum, and each worker has that of its parts alone",
        "use `compress = bfloat16`, or leave the rule for slots out",
    ),
    Conflict(
        "TFD528",
        (("backup", ("on",)), _BETWEEN, ("variables", ("replicated",))),
        "`backup` cannot be combined with `variables -> replicated` and `replication = between_graph`",
        "the weights of a worker that a step leaves out would not be those of the others",
        "leave `backup` out, or place the variables on parameter servers, such as"
        " `variables -> balanced(ps[*])`",
    ),
    Conflict(
        "TFD528",
        (("batch_norm", ("synchronized",)), _BETWEEN, _SHARED),
        "`batch_norm = synchronized` cannot be combined with `replication = between_graph` and variables that"
        " workers share",
        "statistics of the whole batch are exchanged within a step, and they send gradients at its end",
        "use `variables -> replicated`, with which workers send each other statistics too, or"
        " `batch_norm = mean`, or `replication = in_graph`",
    ),
    Conflict(
        "TFD528",
        (("precision", ("mixed_float16",)), _BETWEEN, _SHARED),
        "`precision = mixed_float16` cannot be combined with `replication = between_graph` and variables that"
        " workers share",
        "the scale of the loss depends on whether the gradients of all clones are finite, which no single"
        " worker knows",
        "use `variables -> replicated`, with which every worker has the sums, or"
        " `precision = mixed_bfloat16`, which needs no scale, or `replication = in_graph`",
    ),
    Conflict(
        "TFD522",
        (("backup", ("on",)), ("mode", ("async", "local"))),
        "`backup` has no meaning under `mode = {mode}`",
        "no clone waits for another before it updates, so none can be left out",
        "leave `backup` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("deterministic", ("on",)), ("backup", ("on",))),
        "`deterministic` cannot be combined with `backup`",
        "which workers a step leaves out depends on how fast they are",
        "leave `deterministic` or `backup` out",
    ),
)


def facts_of(spec: ir.Spec, *, sparse: bool | None = None, given: bool = False) -> Facts:
    """Return the values that a spec has for each aspect.

    Args:
        sparse: Whether some gradient is of rows, if the model has been traced.
        given: Whether some gradient is of a weight that the model gives another value.
    """
    update = spec.update
    facts: dict[Aspect, frozenset[str]] = {
        "mode": frozenset({update.mode}),
        "aggregate": frozenset({update.aggregate.name}),
        "pack": _switch(update.pack is not None),
        "compress": frozenset({"none" if update.compress is None else update.compress.name}),
        "variables": frozenset(layout_of(rule.target) for rule in variable_rules(spec))
        or frozenset({"replicated" if _copies_by_default(spec) else "shared"}),
        "slots": frozenset({_slots(spec)}),
        "optimizer": _optimizers(update),
        "precision": frozenset({update.precision}),
        "batch_norm": frozenset({update.batch_norm}),
        "accumulate": _switch(update.accumulate > 1),
        "schedule": _switch(update.schedule is not None),
        "clones": frozenset({"groups" if _has_groups(spec) else "one device each"}),
        "staleness": frozenset({"zero"}) if update.staleness == 0 else _switch(update.staleness is not None),
        "average_every": _switch(update.average_every is not None),
        "average_slots": _switch(update.average_slots),
        "replication": frozenset({replication_of(spec)}),
        "backup": _switch(update.backup > 0),
        "deterministic": _switch(spec.train.deterministic),
        "machines": frozenset({"several" if spec.devices.jobs else "one"}),
    }
    if sparse is not None:
        facts["gradients"] = frozenset({"dense", *["sparse"] * sparse, *["of given weights"] * given})
    return facts


def replication_of(spec: ir.Spec) -> Literal["in_graph", "between_graph"]:
    """Return whether one graph has all clones, or each worker has a graph of its own."""
    if spec.update.replication is not None:
        return spec.update.replication
    if spec.update.mode == "async" and spec.devices.jobs:
        return "between_graph"
    return "between_graph" if _copies_by_default(spec) else "in_graph"


def _copies_by_default(spec: ir.Spec) -> bool:
    """Return whether nothing is said of the places of variables on a cluster of workers without servers.

    Each of several workers has a graph of its own and all weights then, unless something needs one graph.
    """
    jobs, update = spec.devices.jobs, spec.update
    tasks = sum(job.tasks for job in jobs)
    of_variables = {"variables", "slots", "updates"}
    return (
        tasks > 1
        and all(job.name != PARAMETER_SERVER for job in jobs)
        and not any(rule.selector.role in of_variables for rule in spec.place.rules)
        and update.mode == "sync"
        and update.replication is None
        and update.aggregate.name != "collective"
    )


def keeps_all(spec: ir.Spec) -> bool:
    """Return whether each worker has a graph of its own and all weights, of which its clones have copies."""
    if replication_of(spec) == "in_graph":
        return False
    return _copies_by_default(spec) or any(
        layout_of(rule.target) == "replicated" for rule in variable_rules(spec)
    )


def changing_job(spec: ir.Spec) -> ir.Job | None:
    """Return the job whose tasks come and go while they train; None if there is none."""
    return next((job for job in spec.devices.jobs if job.least is not None), None)


def conflicts(facts: Facts) -> Iterator[Conflict]:
    """Yield every conflict of a spec with these facts."""
    return (each for each in CONFLICTS if each.holds(facts))


def variable_rules(spec: ir.Spec) -> tuple[ir.Rule, ...]:
    """Return the rules of a spec that can place a variable, which no later rule without a glob overrides."""
    return _effective_rules(spec, "variables")


def slot_rules(spec: ir.Spec) -> tuple[ir.Rule, ...]:
    """Return the rules of a spec that cut slots over the clones, and are not overridden."""
    rules = _effective_rules(spec, "slots")
    return tuple(rule for rule in rules if isinstance(rule.target, ir.OverClones))


def _effective_rules(spec: ir.Spec, role: str) -> tuple[ir.Rule, ...]:
    rules = [rule for rule in spec.place.rules if rule.selector.role == role]
    whole = [at for at, rule in enumerate(rules) if rule.selector.pattern is None]
    return tuple(rules[whole[-1] :] if whole else rules)


def layout_of(target: ir.Target) -> str:
    """Return whether variables are replicated for each clone, sharded, spread, or on a shared device."""
    if isinstance(target, ir.Replicated | ir.GroupMember):
        return "replicated"
    if isinstance(target, ir.Sharded):
        return "sharded"
    return "spread" if isinstance(target, ir.Balanced | ir.RoundRobin) else "shared"


def _slots(spec: ir.Spec) -> str:
    """Return whether slots are cut over the clones, and whether some variable has a copy for each clone."""
    if not slot_rules(spec):
        return "whole"
    copied = any(layout_of(rule.target) == "replicated" for rule in variable_rules(spec))
    return "over clones" if copied or spec.update.mode == "local" else "over clones without copies"


def _has_groups(spec: ir.Spec) -> bool:
    return any(isinstance(rule.target, ir.Groups) for rule in _effective_rules(spec, "clones"))


def _optimizers(update: ir.Update) -> frozenset[str]:
    """Return the name of the optimizer if it updates all weights; otherwise it depends on the weights."""
    names = [each.optimizer.name for each in update.optimizers]
    return frozenset(names if len(names) == 1 and not update.freeze else ())


def _switch(on: bool) -> frozenset[str]:
    return frozenset({"on" if on else "off"})
