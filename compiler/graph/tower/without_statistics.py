"""A copy of the tower template for clones whose batch-normalization statistics are discarded.

The ops that only compute those statistics are removed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import tensorflow as tf
from attrs import evolve

from compiler.graph.tower.template import Template
from compiler.plan import Plan
from compiler.step.record import Fragment

_known: WeakKeyDictionary[Template, Template] = WeakKeyDictionary()
"""The copies, by their templates: the size of a graph is found from them before they are written into it."""


def only_first_keeps_statistics(plan: Plan) -> bool:
    """Whether the new statistics of clone 0 are kept for all clones, and those of the others are discarded.

    This is not so with several micro-batches, because each starts from the statistics that the one before it
    has left in the same tower.
    """
    return plan.update.mode == "sync" and plan.update.batch_norm != "mean" and plan.micro_batches == 1


def templates_of_towers(plan: Plan, templates: Mapping[int, Template]) -> list[Template]:
    """Return the template of each tower of a plan."""
    discarding = {}
    if only_first_keeps_statistics(plan):
        discarding = {size: without_statistics(each) for size, each in templates.items()}
    return [(discarding if each.index else {}).get(each.batch, templates[each.batch]) for each in plan.towers]


def without_statistics(template: Template) -> Template:
    """Return a copy of a template without new statistics and the nodes that only they need.

    What is declared to be joined over clones is kept.
    """
    if template.state_updates.keys() <= template.joined_states:
        return template
    known = _known.get(template)
    if known is None:
        known = _known[template] = _copied(template)
    return known


def _copied(template: Template) -> Template:
    needed = _reachable(template)
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.CopyFrom(template.graph_def.versions)
    graph_def.library.CopyFrom(template.graph_def.library)
    graph_def.node.extend(node for node in template.graph_def.node if node.name in needed)
    return evolve(
        template,
        fragment=Fragment(graph_def, made=template.fragment.made),
        weights={name: port for name, port in template.weights.items() if port in needed},
        state_updates={
            name: each for name, each in template.state_updates.items() if name in template.joined_states
        },
    )


def _reachable(template: Template) -> set[str]:
    """Return the nodes on which anything but a new statistic depends, and all ports but those of weights."""
    nodes = {node.name: node for node in template.graph_def.node}
    kept = {*template.outputs, *(tensor for each in template.losses for tensor in each.tensors)}
    kept |= {state for states in template.metric_states.values() for state in states}
    kept |= {each for name, each in template.state_updates.items() if name in template.joined_states}
    kept |= {each.values for each in template.gradients}
    kept |= {each.indices for each in template.gradients if each.indices is not None}
    for each in template.exchanges:
        kept |= {*each.sent, *(tensor for pair in each.gradients_sent for tensor in pair)}
    own = (template.seed, template.scale, template.inverse_share, *template.inputs.values())
    pending = [*kept, *template.received, *(port for port in own if port is not None)]
    seen: set[str] = set()
    while pending:
        name = pending.pop().removeprefix("^").partition(":")[0]
        if name not in seen:
            seen.add(name)
            pending += nodes[name].input
    return seen
