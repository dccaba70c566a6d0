"""Which update modes, aggregations, placements and numerics go together: the one table.

The checks of a plan, their messages, the table of the reference and the combinations of `verify` are made
from it. To add a combination that makes no sense, put a row here; a new aspect is a line in `facts_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl import ir

Aspect: TypeAlias = Literal[
    "mode",
    "aggregate",
    "pack",
    "variables",
    "gradients",
    "precision",
    "batch_norm",
    "accumulate",
    "staleness",
    "average_every",
    "average_slots",
    "replication",
    "backup",
    "machines",
    "deterministic",
]
Facts: TypeAlias = Mapping[Aspect, frozenset[str]]
"""What holds for a spec: the values of each aspect. An aspect that is left out is not known yet."""


@frozen
class Conflict:
    """Values of a spec that cannot be used together.

    Args:
        code: The code of the diagnostic.
        when: Aspects with values. The conflict exists if each aspect has one of its values. The diagnostic
            points at the first aspect, and also at the second.
        message: What is wrong; `{aspect}` stands for the value of an aspect.
        reason: Why the values cannot be used together.
        nearest: What to write instead.
    """

    code: str
    when: tuple[tuple[Aspect, tuple[str, ...]], ...]
    message: str
    reason: str
    nearest: str = field(repr=False)

    def holds(self, facts: Facts) -> bool:
        """Whether a spec of which `facts` hold has this conflict."""
        return all(not facts.get(aspect, frozenset()).isdisjoint(values) for aspect, values in self.when)

    def title(self, facts: Facts) -> str:
        """Return the message for a spec of which `facts` hold."""
        values = {aspect: " or ".join(sorted(facts[aspect] & {*these})) for aspect, these in self.when}
        return self.message.format(**values)


MODES = ("sync", "async", "local")
AGGREGATIONS = ("add_n", "tree", "hierarchical", "ring", "shuffle", "collective")
VARIABLES = ("shared", "spread", "replicated")

CONFLICTS = (
    Conflict(
        "TFD520",
        (("variables", ("replicated",)), ("mode", ("async",))),
        "`variables -> replicated` does not go with `mode = async`",
        "clones that update whenever they are ready have nothing that would keep their copies equal",
        "put the variables onto devices that all clones share, `variables -> balanced(...)` say, or use"
        " `mode = local`, which trains a copy per clone and averages the copies",
    ),
    Conflict(
        "TFD521",
        (("aggregate", AGGREGATIONS[1:]), ("mode", ("async",))),
        "`aggregate = {aggregate}` does not go with `mode = async`",
        "every clone applies its own gradient, so there is no sum to make",
        "leave `aggregate` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD521",
        (("pack", ("on",)), ("mode", ("async",))),
        "`pack` does not go with `mode = async`",
        "every clone applies its own gradient, so nothing is sent that could be packed",
        "leave `pack` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD522",
        (("staleness", ("on", "zero")), ("mode", ("sync", "local"))),
        "`staleness` has no meaning under `mode = {mode}`",
        "all clones take their steps together, so none is ahead of another",
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
        "slots are averaged where every clone trains a copy of its own",
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
        "CollectiveReduce takes tensors of one shape, and every clone has rows of its own",
        "use `aggregate = ring`, which spreads the work as evenly and sums rows too",
    ),
    Conflict(
        "TFD774",
        (("aggregate", ("collective",)), ("machines", ("several",))),
        "`aggregate = collective` does not go with the tasks of a cluster",
        "TensorFlow's collectives wait without end where a task is missing, and after one failed step a"
        " server refuses them until it is started again",
        "use `aggregate = ring`, which sends the same parts in the same order, and goes on when a task is"
        " back",
    ),
    Conflict(
        "TFD524",
        (("precision", ("mixed_float16",)), ("mode", ("async", "local"))),
        "`precision = mixed_float16` does not go with `mode = {mode}`",
        "the scale of the loss is one for all clones, and follows steps that they take together",
        "use `precision = mixed_bfloat16`, which needs no scale, or `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("batch_norm", ("synchronized",)), ("mode", ("async", "local"))),
        "`batch_norm = synchronized` does not go with `mode = {mode}`",
        "statistics of the whole batch need all clones at the same step",
        "use `batch_norm = first`, or `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("batch_norm", ("mean",)), ("mode", ("async",))),
        "`batch_norm = mean` does not go with `mode = async`",
        "there is no step that has the statistics of all clones",
        "use `batch_norm = first`, or `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("batch_norm", ("synchronized",)), ("accumulate", ("on",))),
        "`batch_norm = synchronized` does not go with `accumulate`",
        "the whole batch is not known before the last of its micro-batches",
        "use `batch_norm = mean`, or larger batches in place of `accumulate`",
    ),
    Conflict(
        "TFD524",
        (("deterministic", ("on",)), ("mode", ("async",))),
        "`deterministic` does not go with `mode = async`",
        "clones update in the order in which they happen to be ready, which no second run repeats",
        "leave `deterministic` out, or use `mode = sync` or `mode = local`",
    ),
    Conflict(
        "TFD525",
        (("staleness", ("zero",)), ("mode", ("async",))),
        "`staleness = 0` lets no clone begin",
        "with its first update a clone is one step ahead of the others",
        "use `staleness = 1`, or `mode = sync`, where all clones are always at the same step",
    ),
    Conflict(
        "TFD526",
        (("replication", ("between_graph",)), ("machines", ("one",))),
        "`replication = between_graph` needs a job `worker`",
        "it means a graph for each worker, and the spec declares the devices of one machine only",
        'leave `replication` out, or declare `job "worker"` and `job "ps"` in `devices`',
    ),
    Conflict(
        "TFD528",
        (("replication", ("between_graph",)), ("mode", ("local",))),
        "`replication = between_graph` does not go with `mode = local`",
        "the copies of all clones are averaged together, and no graph of a single worker has them all",
        "leave `replication` out: in one graph, clones of all workers train copies of their own",
    ),
    Conflict(
        "TFD528",
        (("variables", ("replicated",)), ("replication", ("between_graph",))),
        "`variables -> replicated` does not go with `replication = between_graph`",
        "copies on the devices of all clones are kept equal within one step of one graph, and every worker"
        " has a graph of its own",
        "put the variables onto the parameter servers, `variables -> balanced(ps[*])` say, or use"
        " `replication = in_graph`",
    ),
    Conflict(
        "TFD528",
        (("batch_norm", ("synchronized",)), ("replication", ("between_graph",))),
        "`batch_norm = synchronized` does not go with `replication = between_graph`",
        "statistics of the whole batch are exchanged in the middle of a step; workers meet at its end only",
        "use `batch_norm = mean`, or `replication = in_graph`",
    ),
    Conflict(
        "TFD528",
        (("precision", ("mixed_float16",)), ("replication", ("between_graph",))),
        "`precision = mixed_float16` does not go with `replication = between_graph`",
        "the scale of the loss follows whether the gradients of all clones are finite, which no worker sees"
        " by itself",
        "use `precision = mixed_bfloat16`, which needs no scale, or `replication = in_graph`",
    ),
    Conflict(
        "TFD522",
        (("backup", ("on",)), ("mode", ("async", "local"))),
        "`backup` has no meaning under `mode = {mode}`",
        "no clone waits for another before it updates, so there is none to do without",
        "leave `backup` out, or use `mode = sync`",
    ),
    Conflict(
        "TFD524",
        (("deterministic", ("on",)), ("backup", ("on",))),
        "`deterministic` does not go with `backup`",
        "which workers a step does without depends on how fast they happen to be",
        "leave `deterministic` or `backup` out",
    ),
)


def facts_of(spec: ir.Spec, *, sparse: bool | None = None) -> Facts:
    """Return the values that a spec has for each aspect.

    Args:
        spec: The spec.
        sparse: Whether some gradient consists of rows of a table; None if that is not known yet.
    """
    update = spec.update
    facts: dict[Aspect, frozenset[str]] = {
        "mode": frozenset({update.mode}),
        "aggregate": frozenset({update.aggregate.name}),
        "pack": _switch(update.pack is not None),
        "variables": frozenset(layout_of(rule.target) for rule in variable_rules(spec))
        or frozenset({"shared"}),
        "precision": frozenset({update.precision}),
        "batch_norm": frozenset({update.batch_norm}),
        "accumulate": _switch(update.accumulate > 1),
        "staleness": frozenset({"zero"}) if update.staleness == 0 else _switch(update.staleness is not None),
        "average_every": _switch(update.average_every is not None),
        "average_slots": _switch(update.average_slots),
        "replication": frozenset({replication_of(spec)}),
        "backup": _switch(update.backup > 0),
        "deterministic": _switch(spec.train.deterministic),
        "machines": frozenset({"several" if spec.devices.jobs else "one"}),
    }
    if sparse is not None:
        facts["gradients"] = frozenset({"sparse", "dense"} if sparse else {"dense"})
    return facts


def replication_of(spec: ir.Spec) -> Literal["in_graph", "between_graph"]:
    """Return whether one graph has all clones, or every worker a graph of its own."""
    if spec.update.replication is not None:
        return spec.update.replication
    return "between_graph" if spec.update.mode == "async" and spec.devices.jobs else "in_graph"


def conflicts(facts: Facts) -> Iterator[Conflict]:
    """Yield every conflict of a spec of which `facts` hold."""
    return (each for each in CONFLICTS if each.holds(facts))


def variable_rules(spec: ir.Spec) -> tuple[ir.Rule, ...]:
    """Return the rules of a spec that can place a variable: none that a later one without a glob beats."""
    rules = [rule for rule in spec.place.rules if rule.selector.role == "variables"]
    whole = [at for at, rule in enumerate(rules) if rule.selector.pattern is None]
    return tuple(rules[whole[-1] :] if whole else rules)


def layout_of(target: ir.Target) -> str:
    """Return whether variables go to each clone, are spread over devices, or share one device."""
    if isinstance(target, ir.Replicated | ir.GroupMember):
        return "replicated"
    return "spread" if isinstance(target, ir.Balanced | ir.RoundRobin) else "shared"


def _switch(on: bool) -> frozenset[str]:
    return frozenset({"on" if on else "off"})
