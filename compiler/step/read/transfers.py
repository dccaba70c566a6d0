"""The tensors that a step sends between devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from compiler.figures import gathered
from compiler.mapping.records import MapTensor, MapTransfer
from compiler.plan import WorkerPlan
from compiler.step.edges import Edges, Numbers, distinct
from compiler.step.record import Tensor
from compiler.step.step import Step
from compiler.topology import Device, Host

LARGEST = 5
COPIED_ELEMENTS = 16  # TensorFlow copies constants of up to so many elements instead of sending them


def list_transfers(
    step: Step,
    *,
    of_worker: Host | None = None,
    named: int | None = LARGEST,
    sizes: Mapping[str, int] | None = None,
) -> tuple[MapTransfer, ...]:
    """Return the number of tensors and bytes that one step sends, for each pair of devices.

    A tensor is sent to a device once, however many ops use it there. Control inputs send no bytes and are
    left out. A handle of a resource never leaves its device.

    Args:
        of_worker: The task of another worker, if each has a graph of its own and its step is meant, which is
            without what only the chief runs. None means the step of the graph itself.
        named: How many of the largest tensors are named; None for all.
        sizes: The bytes of tensors whose sizes depend on the examples, by name, if they are known.
    """
    return tuple(_Sending(step, of_worker).links(sizes or {}, named))


def sent_tensors(step: Step) -> list[Tensor]:
    """Return each tensor that a step sends."""
    sending = _Sending(step)
    return [sending.edges.made[at] for at in distinct(sending.tensors)]


@define
class _Sending:
    """What a step sends: each tensor once for each pair of devices."""

    step: Step
    of_worker: Host | None = None
    edges: Edges = field(init=False)
    tensors: Numbers = field(init=False)
    pairs: Numbers = field(init=False)  # the two devices of each as one number
    _devices: Sequence[Device] = field(init=False)
    _runs: Numbers = field(init=False)
    _homes: Numbers = field(init=False)
    _makers: Numbers = field(init=False)  # of what is taken

    def __attrs_post_init__(self) -> None:
        edges = self.edges = self.step.edges
        self._runs = self.step.runs if self.of_worker is None else self.step.runs_by_all
        self._devices = self.step.plan.topology.devices
        self._homes = self._at_worker()
        self._makers = edges.makers[edges.taken]
        sources, targets = self._homes[self._makers], self._homes[edges.takers]
        away = self._runs[edges.takers] & (sources != targets)
        copied = dict(self._copied(away))
        if copied:
            away &= ~np.isin(self._makers, [*copied])
        sent = self._key(sources[away].astype(np.int64), targets[away], edges.taken[away])
        further = np.array([key for keys in copied.values() for key in keys], np.int64)
        self.pairs, self.tensors = np.divmod(distinct(np.concatenate((sent, further))), len(edges.made))
        unsized = np.flatnonzero(edges.bytes[self.tensors] < 0)
        handles = [at for at in unsized if edges.made[self.tensors[at]].dtype == "resource"]
        self.pairs, self.tensors = (np.delete(each, handles) for each in (self.pairs, self.tensors))

    def _key(self, source: Any, target: Any, tensor: Any) -> Any:
        """Return a number for a tensor on its way between two devices."""
        return (source * len(self._devices) + target) * len(self.edges.made) + tensor

    def _at_worker(self) -> Numbers:
        """Return the numbers of the devices of all ops, in the graph of the worker that is meant."""
        plan, edges = self.step.plan, self.edges
        if self.of_worker is None or not isinstance(plan, WorkerPlan):
            return edges.homes
        twins = np.arange(len(self._devices))
        for device, twin in plan.devices_for(self.of_worker).items():
            twins[device.ordinal] = twin.ordinal
        return np.where([op.own for op in edges.ops], twins[edges.homes], edges.homes)

    def _copied(self, away: Numbers) -> Iterator[tuple[int, list[int]]]:
        """Yield each small constant that TensorFlow copies to the devices that use it, and sends nothing.

        Args:
            away: Whether each input is made on another device than that of its op.

        Yields:
            The number of the op, and the keys of its tensor on the way from a copy to another device.
        """
        edges, makers = self.edges, distinct(self._makers[away])
        small = [
            at
            for at in makers[edges.are("Const")[makers]].tolist()
            if (edges.ops[at].outputs[0].elements or 0) <= COPIED_ELEMENTS
        ]
        if not small:
            return
        waiting = {*edges.awaited[self._runs[edges.waiters]].tolist()}
        uses = np.flatnonzero(np.isin(self._makers, small) & self._runs[edges.takers])
        taken = zip(self._makers[uses].tolist(), self._homes[edges.takers[uses]].tolist(), strict=True)
        for at, users in gathered(taken).items():
            home, places = self._homes[at], [(self._copy_for(each), each) for each in users]
            fixed = len(users) == 1 or at in waiting or self._copy_for(home) != home
            if not fixed and len({copy for copy, _ in places}) > 1:
                tensor = int(edges.first[at])
                yield at, [self._key(copy, user, tensor) for copy, user in places if copy != user]

    def _copy_for(self, home: int) -> int:
        """Return the device of the copy for a user: its own if that is a CPU, else the CPU of its host."""
        plan, device = self.step.plan, self._devices[home]
        if plan.emulate or device.kind == "cpu":
            return home
        return plan.topology.first_cpu(*device.host).ordinal

    def links(self, sizes: Mapping[str, int], named: int | None) -> Iterator[MapTransfer]:
        """Yield what is sent, for each pair of devices.

        Args:
            sizes: The bytes of tensors by their names, if they are known besides.
            named: How many of the largest tensors are named; None for all.
        """
        known = self._sizes(sizes)
        pairs, begins = np.unique(self.pairs, return_index=True)
        parts = (np.split(each, begins[1:]) for each in (self.tensors, known))
        for pair, tensors, own in zip(pairs.tolist(), *parts, strict=False):
            source, target = (self._devices[at] for at in divmod(pair, len(self._devices)))
            yield self._link(source, target, tensors, own, named)

    def _sizes(self, sizes: Mapping[str, int]) -> Numbers:
        """Return the bytes of what is sent; -1 if they are not known."""
        edges, made = self.edges, self.edges.bytes
        unknown = {*self.tensors[made[self.tensors] < 0].tolist()}
        if unknown:
            made = made.copy()
            inputs = np.flatnonzero(np.isin(edges.taken, [*unknown]) & self._runs[edges.takers])
            for at in inputs.tolist():
                made[edges.taken[at]] = max(made[edges.taken[at]], edges.bytes_taken(at))
        found = made[self.tensors]
        for at, tensor in enumerate(self.tensors) if sizes else ():
            found[at] = sizes.get(edges.made[tensor].name, found[at])
        return found

    def _link(
        self, source: Device, target: Device, tensors: Numbers, sizes: Numbers, named: int | None
    ) -> MapTransfer:
        made, unknown = self.edges.made, tensors[sizes < 0]
        known = len(tensors) - len(unknown)
        count = known if named is None else min(named, known)
        large = np.flatnonzero(sizes >= np.partition(sizes, -count)[-count]) if count else ()
        found = sorted((-int(sizes[at]), made[tensors[at]].name) for at in large)[:count]
        return MapTransfer(
            source.ref,
            target.ref,
            tensors=len(tensors),
            bytes=int(sizes[sizes >= 0].sum()) + sum(self._least_bytes(at) for at in unknown),
            bytes_unknown=len(unknown),
            largest=tuple(MapTensor(name, -size) for size, name in found),
        )

    def _least_bytes(self, tensor: int) -> int:
        """Return the bytes of the parts of a joined tensor whose sizes are known; 0 for other tensors."""
        op = self.edges.ops[self.edges.makers[tensor]]
        return sum(each.bytes or 0 for each in op.inputs[:-1]) if op.type == "ConcatV2" else 0
