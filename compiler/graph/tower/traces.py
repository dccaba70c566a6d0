"""The traced towers of a plan. Each size of batch is traced once, and several graphs may share the traces."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen

from compiler.graph.tower.network.batch_norm import sync_policy
from compiler.graph.tower.template import Template, WeightInfo
from compiler.graph.tower.trace import Tracer
from compiler.plan import Plan


@frozen
class Traced:
    """The towers of a plan.

    Attributes:
        templates: The towers for training by the number of their examples.
        evaluation: The tower for evaluation.
        weights: The weights by name.
    """

    templates: Mapping[int, Template]
    evaluation: Template
    weights: Mapping[str, WeightInfo]


@define
class Traces:
    """Traced towers, kept for further plans.

    Attributes:
        base: The folder in which `python(...)` looks for modules first.
    """

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
