"""Many placements side by side, at different temperatures: parallel tempering.

Replica exchange after Swendsen and Wang, Replica Monte Carlo simulation of spin-glasses (1986): a replica at
a high temperature wanders, one at a low temperature improves what it has, and neighbours on the ladder of
temperatures exchange what they have found. No schedule is needed, and a good placement to begin with is not
lost.

All replicas offer the same group a new device at the same time, so that a step of all of them is a few
operations on arrays. A replica looks at every device and takes one with the probabilities of a heat bath
(the Gibbs sampler; Geman and Geman, 1984). The energy of a placement is the sum over its devices of (load /
scale) ** 12, which is governed by the largest load and yet tells placements with the same largest load
apart.

Loads are whole multiples of a small unit, so that sums do not depend on the order in which they are made:
the result does not depend on how many operations a processor does at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from compiler.search.problem import Flags, Floats, Integers, Problem

_UNITS = 1 << 24
"""Loads are whole multiples of the scale by this; up to 2 ** 29 times the scale they are exact."""
_FORBIDDEN = 1e6
"""The load, in scales, of a group on a device that cannot have it, and of memory that is missing."""


@frozen
class Ladder:
    """The temperatures, which rise by the same factor from replica to replica."""

    cold: float  # the lowest, in units of energy
    hot: float  # the highest


def never() -> bool:
    """Say that there is always time to go on."""
    return False


def temper(
    problem: Problem,
    starts: Integers,
    scale: float,
    sweeps: int,
    ladder: Ladder,
    random: np.random.Generator,
    hurry: Callable[[], bool] = never,
) -> tuple[Integers, Floats]:
    """Improve placements.

    Args:
        starts: The placements to begin with, as a device for each group (row) and replica (column); those of
            the first columns get the lowest temperatures.
        scale: The load that the energy is relative to, about that of the best placement that is known.
        sweeps: How often every group is offered a new device in every replica.
        hurry: Says whether there is no more time; it is asked before each sweep.

    Returns:
        For each column the best placement that it had at the end of a sweep, in the shape of `starts`, and
        the max-load of each in units of the scale; `_FORBIDDEN` times what is not possible about it is
        added.
    """
    state = _Replicas.of(problem, starts, scale)
    devices, replicas = state.loads.shape
    temperatures = np.geomspace(ladder.cold, ladder.hot, replicas)
    at = np.arange(replicas)  # the replica that has each temperature
    best, best_load = state.devices, state.peaks()
    for _ in range(sweeps):
        if hurry():
            break
        order = random.permutation(problem.size)
        noise = random.gumbel(size=(problem.size, devices, replicas))
        noise[:, :, at] *= temperatures
        for group, heat in zip(order.tolist(), noise, strict=True):
            state.offer(group, heat)
        peaks = state.peaks()
        better = peaks < best_load
        best[:, better] = state.has[:, :, better].argmax(axis=1)
        best_load[better] = peaks[better]
        _exchange(at, temperatures, state.energies(), random)
    return best, best_load


def _exchange(at: Integers, ladder: Floats, energies: Floats, random: np.random.Generator) -> None:
    """Exchange temperatures of neighbours, with the probability that keeps the joint distribution."""
    for first in (0, 1):
        colder = np.arange(first, len(ladder) - 1, 2)
        here, there = at[colder], at[colder + 1]
        gain = (1.0 / ladder[colder] - 1.0 / ladder[colder + 1]) * (energies[here] - energies[there])
        swap = np.log(random.random(len(colder))) < gain
        at[colder[swap]], at[colder[swap] + 1] = there[swap], here[swap]


@frozen(eq=False)
class _Group:
    """What a step needs to know of one group."""

    nets: Integers
    costs: Floats
    others: NDArray[np.int16]  # how many other groups each has, in the shape of `_Replicas.held`
    loads: Floats  # its own load on each device, as a column; includes what makes a device impossible
    bytes: float


@frozen(eq=False)
class _Replicas:
    """The state of all replicas.

    Arrays have a row for each device and a column for each replica. They are small, so that a step takes as
    long as its operations on arrays are many, and those that look up entries take the longest. What a group
    has is therefore told by flags for all devices, and not by the numbers of its devices.
    """

    groups: tuple[_Group, ...]
    has: Flags  # for each group, flags: whether it is on a device in a replica
    held: NDArray[np.int16]  # for each net, how many of its groups are on a device
    loads: Floats  # the load of each device, in units of the scale
    taken: Floats | None  # its memory that is taken, in bytes; None if memory cannot run out
    capacity: Floats  # the memory of each device, as a column
    numbers: Integers

    @classmethod
    def of(cls, problem: Problem, starts: Integers, scale: float) -> _Replicas:
        """Return the state of the placements `starts`."""
        count, replicas = problem.accelerators + 1, starts.shape[1]
        host, each = problem.accelerators, np.arange(replicas)
        units = _UNITS / scale

        def whole(values: Floats) -> Floats:
            return np.rint(values * units) / _UNITS

        costs = whole(problem.costs)
        held = np.zeros((len(problem.nets), count, replicas), dtype=np.int16)
        for at, net in enumerate(problem.nets):
            for group in net:
                held[at, starts[group], each] += 1
        pins = np.array([len(net) for net in problem.nets], dtype=np.int16)
        own = np.repeat(whole(problem.seconds)[:, None], count, axis=1)
        own[:, host] = whole(problem.host_seconds)
        own[~problem.supported, :host] += _FORBIDDEN
        if not problem.host:
            own[:, host] += _FORBIDDEN
        cut = (held > 0) & (held < pins[:, None, None])
        loads = np.tensordot(costs, cut.astype(np.float64), axes=1)
        loads[host] = 0.0
        taken = np.zeros((count, replicas))
        for group in range(problem.size):
            loads[starts[group], each] += own[group, starts[group]]
            taken[starts[group], each] += problem.bytes[group]
        groups = tuple(
            _Group(
                np.array(nets, dtype=np.int64),
                costs[nets],
                (pins[nets] - 1)[:, None, None],
                own[group][:, None],
                float(problem.bytes[group]),
            )
            for group, nets in enumerate(problem.nets_of)
        )
        capacity = np.full((count, 1), float(problem.capacity))
        capacity[host] = np.inf
        scarce = float(problem.bytes.sum()) > problem.capacity
        numbers = np.arange(count)[:, None]
        has = starts[:, None, :] == numbers
        return cls(groups, has, held, loads, taken if scarce else None, capacity, numbers)

    @property
    def devices(self) -> Integers:
        """The device of each group in each replica."""
        return np.asarray(self.has.argmax(axis=1))

    def offer(self, group: int, heat: Floats) -> None:
        """Let each replica choose a device for a group.

        Args:
            heat: A random number for each device and replica; the larger, the likelier the device is taken.
        """
        about, has, loads = self.groups[group], self.has[group], self.loads
        held = self.held[about.nets] - has
        paid = (held == 0).view(np.int8) - (held == about.others).view(np.int8)
        added = (about.costs @ paid.reshape(len(about.nets), loads.size)).reshape(loads.shape)
        added[-1] = 0.0
        added += about.loads
        loads -= added * has
        without, there = _energy(np.array((loads, loads + added)))
        energy = there - without
        energy -= heat
        if self.taken is not None:
            np.subtract(self.taken, about.bytes * has, out=self.taken)
            missing = self.taken + (about.bytes - self.capacity)
            energy += (missing > 0) * (_FORBIDDEN * _FORBIDDEN)
        np.equal(self.numbers, energy.argmin(axis=0), out=has)
        loads += added * has
        if self.taken is not None:
            np.add(self.taken, about.bytes * has, out=self.taken)
        self.held[about.nets] = held + has

    def energies(self) -> Floats:
        """Return the energy of each replica."""
        energies: Floats = _energy(self.loads).sum(axis=0)
        return energies

    def peaks(self) -> Floats:
        """Return the max-load of each replica, in units of the scale."""
        peaks: Floats = self.loads.max(axis=0)
        if self.taken is not None:
            peaks = peaks + np.maximum(self.taken / self.capacity - 1.0, 0.0).sum(axis=0) * _FORBIDDEN
        return peaks


def _energy(load: Floats) -> Floats:
    """Return the twelfth power of each load."""
    square = load * load
    fourth = square * square
    return fourth * fourth * fourth
