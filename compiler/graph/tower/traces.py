"""The traced towers of a plan. Each size of batch is traced once, and several graphs may share the traces."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.graph.tower.network.normalization import sync_policy
from compiler.graph.tower.template import Template, WeightInfo, nodes_before
from compiler.graph.tower.trace import Tracer
from compiler.plan import Plan


@frozen
class Traced:
    """The towers of a plan."""

    templates: Mapping[int, Template]  # the towers for training by the number of their examples
    evaluation: Template
    weights: Mapping[str, WeightInfo]


@define
class Traces:
    """Traced towers, kept for further plans."""

    base: str = "."
    _known: list[Tracer] = field(factory=list, repr=False)

    def of(self, plan: Plan, seed: int) -> Traced:
        """Return the towers of a plan; those that are not known yet are traced."""
        update, sync = plan.update, sync_policy(plan)
        together = not any(rule.selector.role == "ops" for rule in plan.spec.place.rules)
        wanted = Tracer(plan.model, seed, update.precision, self.base, together, sync, update.freeze or ())
        tracer = next((each for each in self._known if each == wanted), wanted)
        if tracer is wanted:
            self._known.append(wanted)
        sizes, known = dict.fromkeys(tower.batch for tower in plan.towers), tracer.templates
        for size in (*sizes, None):
            if size not in known:
                known[size] = tracer.trace(size, training=size is not None)
        return Traced({size: known[size] for size in sizes}, known[None], tracer.weights)


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
    kept = {name: each for name, each in template.state_updates.items() if name in template.joined_states}
    left = evolve(template, state_updates=kept)
    ports = (left.seed, left.scale, left.inverse_share, *left.inputs.values(), *left.received)
    needed = nodes_before(left.fragment.node, filter(None, (*left.used, *ports)))
    graph_def = tf.compat.v1.GraphDef(
        node=(node for node in template.graph_def.node if node.name in needed),
        library=template.graph_def.library,
        versions=template.graph_def.versions,
    )
    weights = {name: port for name, port in template.weights.items() if port in needed}
    return evolve(left, fragment=evolve(template.fragment, nodes=graph_def), weights=weights)
