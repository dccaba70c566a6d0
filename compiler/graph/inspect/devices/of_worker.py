"""On which devices the ops of the chief's graph are in the graph of another worker.

The graphs of workers are alike: each has its clones, and what belongs to them, on its own devices. What
workers share is where the rules put it, for all of them. That can be on devices of the chief, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import define, field

from compiler.graph.ledger import Entry
from compiler.plan import WorkerPlan
from compiler.reasons import Placed, Reason
from compiler.topology import Device, Host

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


@define
class Moves:
    """Says where the ops of the chief's graph are in those of other workers.

    Attributes:
        compiled: The graph of the chief.
        homes: The tasks on whose devices is what workers share.
    """

    compiled: CompiledGraph = field(repr=False)
    homes: frozenset[Host] = field(init=False)
    _shared: frozenset[Reason] = field(init=False, repr=False)
    _devices: dict[tuple[str, int, Host], Device] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        own, places = self._worker_host, list(_shared_places(self.compiled))
        self.homes = frozenset(each.device.host for each in places)
        self._shared = frozenset(each.reason.root for each in places if each.device.host == own)
        self._devices = {
            (each.kind, each.index, each.host): each for each in self.compiled.plan.topology.devices
        }

    @property
    def _worker_host(self) -> Host:
        plan = self.compiled.plan
        assert isinstance(plan, WorkerPlan)
        return plan.worker.host

    @property
    def some_stay(self) -> bool:
        """Whether what workers share is on devices of the chief."""
        return bool(self._shared)

    def is_shared(self, name: str) -> bool:
        """Whether an op on a device of the chief is there for all workers; `name` is its name."""
        return self._stays(self.compiled.ledger.entries[name])

    def device(self, name: str, host: Host) -> Device:
        """Return the device of an op in the graph of another worker.

        Args:
            name: The name of the op.
            host: The task of the worker.
        """
        entry = self.compiled.ledger.entries[name]
        device = entry.device
        if device.host != self._worker_host or self._stays(entry):
            return device
        return self._devices.get((device.kind, device.index, host), device)

    def _stays(self, entry: Entry) -> bool:
        return entry.device.host == self._worker_host and entry.placed.reason.root in self._shared


def _shared_places(compiled: CompiledGraph) -> Iterator[Placed]:
    """Yield the places of what workers share between steps."""
    yield compiled.ledger.entries[compiled.global_step.handle.op.name].placed
    for variable in compiled.variables.values():
        for copy in range(len(variable.copies)):
            yield variable.beside(copy)
            yield variable.slot_place(copy)
        if variable.placement.updates is not None:
            yield variable.placement.updates
