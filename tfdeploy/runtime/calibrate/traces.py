"""The times of ops in traced steps, by the names that the ops have in the graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from attrs import define, field


@define
class TracedSteps:
    """The times of the ops of a graph over several steps.

    Attributes:
        known: The names of the ops of the graph.
        steps: The seconds and the number of kernels of each op, one entry for each step.
    """

    known: frozenset[str] = field(repr=False)
    steps: list[dict[str, tuple[float, int]]] = field(factory=list, repr=False)

    @classmethod
    def together(cls, parts: Iterable[TracedSteps]) -> TracedSteps:
        """Return the times of the steps of all parts, which are of the same graph.

        Args:
            parts: The parts, at least one.
        """
        found = list(parts)
        return cls(found[0].known, [step for each in found for step in each.steps])

    def add(self, metadata: Any) -> None:
        """Take the times of a step from its RunMetadata."""
        seconds: dict[str, float] = defaultdict(float)
        kernels: Counter[str] = Counter()
        for device in metadata.step_stats.dev_stats:
            for each in device.node_stats:
                owner = self._owner(each.node_name)
                if owner is None:  # it brings a tensor to another device
                    continue
                seconds[owner] += max(0, each.op_end_rel_nanos - each.op_start_rel_nanos) * 1e-9
                kernels[owner] += 1
        self.steps.append({name: (seconds[name], kernels[name]) for name in seconds})

    def _owner(self, name: str) -> str | None:
        """Return the op of the graph that a kernel belongs to: itself, or the loop that it is a part of."""
        inner = name.removeprefix("Func/")
        if inner in self.known:
            return inner
        at = inner.rfind("/")
        if inner[at + 1 :].startswith("_") and inner[at + 2 :].isdigit():  # sends and receives
            return None
        while at > 0:
            if inner[:at] in self.known:
                return inner[:at]
            at = inner.rfind("/", 0, at)
        return None

    def medians(self) -> Mapping[str, tuple[float, float]]:
        """Return the median seconds and the mean number of kernels of each op that ran."""
        names = {name for step in self.steps for name in step}
        found = {}
        for name in names:
            entries = [step.get(name, (0.0, 0)) for step in self.steps]
            seconds = median(each[0] for each in entries)
            found[name] = seconds, sum(each[1] for each in entries) / len(entries)
        return found
