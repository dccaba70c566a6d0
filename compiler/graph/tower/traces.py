"""The traced towers of a plan. Each size of batch is traced once, and several graphs may share the traces."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen

from compiler.graph.tower.network.batch_norm import SyncPolicy, sync_policy
from compiler.graph.tower.template import Template, WeightInfo
from compiler.graph.tower.trace import Tracer
from compiler.model.graph import ModelGraph
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


@frozen
class _Kind:
    """What the plans that can share towers have in common."""

    model: ModelGraph
    seed: int
    precision: str
    share_constants: bool
    sync: SyncPolicy | None
    freeze: tuple[str, ...]


@define
class Traces:
    """Traced towers, kept for further plans.

    Attributes:
        base: The folder in which `python(...)` looks for modules first.
    """

    base: str = "."
    _known: list[tuple[_Kind, Tracer, dict[int | None, Template]]] = field(factory=list, repr=False)

    def of(self, plan: Plan, seed: int) -> Traced:
        """Return the towers of a plan; those that are not known yet are traced."""
        tracer, known = self._find(plan, seed)
        sizes = dict.fromkeys(tower.batch for tower in plan.towers)
        for size in (*sizes, None):
            if size not in known:
                known[size] = tracer.trace(size, training=size is not None)
        return Traced({size: known[size] for size in sizes}, known[None], tracer.weights)

    def _find(self, plan: Plan, seed: int) -> tuple[Tracer, dict[int | None, Template]]:
        together = not any(rule.selector.role == "ops" for rule in plan.spec.place.rules)
        update = plan.update
        kind = _Kind(plan.model, seed, update.precision, together, sync_policy(plan), update.freeze or ())
        for known, tracer, templates in self._known:
            if known == kind:
                return tracer, templates
        tracer = Tracer(
            kind.model,
            seed,
            kind.precision,
            self.base,
            share_constants=together,
            sync=kind.sync,
            freeze=kind.freeze,
        )
        self._known.append((kind, tracer, {}))
        return tracer, self._known[-1][2]
