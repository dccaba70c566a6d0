"""What servers do for clones that are not simulated, because another one stands for them.

Clones that update by themselves do not step together. Each of the others goes through its own rounds: what it
does on the devices of other processes is simulated, and what it does on its own takes as long as that of the
clone that stands for it took in its last round. Several of the others are together, so that each of their ops
takes several times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from compiler.figures import gathered
from compiler.time.work import StepWork
from compiler.topology import Host

TOGETHER = 16
"""How many groups of others there are at most, for each process that stands for others."""


@frozen(eq=False)
class Gate:
    """Ops that get something from the devices of the clone itself, which they wait for.

    Attributes:
        needed: The ops on other devices that the clone waits for before it can make that.
        ops: The ops that get it.
    """

    needed: frozenset[int]
    ops: tuple[int, ...]


@frozen(eq=False)
class Abroad:
    """What a clone does on the devices of other processes.

    Attributes:
        host: The process of the clone.
        count: For how many other clones this one stands.
        ops: The numbers of the ops there.
        waits: For each of them, how many inputs it has from the others.
        gates: What some of them get from the clone.
        opened: By op: the numbers of the gates that wait for it.
    """

    host: Host
    count: int
    ops: tuple[int, ...] = field(repr=False)
    waits: dict[int, int] = field(repr=False)
    gates: tuple[Gate, ...] = field(repr=False)
    opened: dict[int, list[int]] = field(repr=False)


@define(eq=False)
class Seen:
    """What was seen of the clone that stands for others, with times in seconds.

    Attributes:
        abroad: What it does on the devices of other processes.
        began: When its round began.
        done: When each of its ops there was done in this round.
        there: When each of these had all that it gets from the clone.
        delays: How long the clone took for each of these things, in its last round.
        ended: When its last round ended.
        rest: How long that was after the last of its ops there was done.
        pause: How long it took from the end of that round to the beginning of the next one.
    """

    abroad: Abroad
    began: float = 0.0
    done: dict[int, float] = field(factory=dict)
    there: dict[int, float] = field(factory=dict)
    delays: dict[int, float] = field(factory=dict)
    ended: float = 0.0
    rest: float = 0.0
    pause: float = 0.0

    def begin(self, now: float) -> None:
        """Note that a round begins; `now` is the time in seconds."""
        self.pause = now - self.ended
        self.began = now
        self.done.clear()
        self.there.clear()

    def end(self, now: float) -> None:
        """Note that a round has ended; `now` is the time in seconds."""
        self.ended = now
        self.rest = now - max(self.done.values(), default=self.began)
        for gate in self.abroad.gates:
            since = max((self.done[each] for each in gate.needed), default=self.began)
            for op in gate.ops:
                self.delays[op] = max(0.0, self.there[op] - since)


def groups_of(count: int, places: int) -> list[int]:
    """Return for how many clones each group of others is."""
    together = -(-count // max(1, places))
    return [min(together, count - start) for start in range(0, count, together)]


def all_abroad(work: StepWork) -> Iterator[tuple[int, Abroad]]:
    """Yield the numbers of the loops that stand for others, with what their clones do elsewhere."""
    if not work.alike:
        return
    for number, loop in enumerate(work.loops):
        host = next((host for host in (work.ops[at].device.host for at in loop) if host in work.alike), None)
        if host is not None and work.alike[host] > 1:
            yield number, _abroad(work, host, loop)


def _abroad(work: StepWork, host: Host, loop: Sequence[int]) -> Abroad:
    elsewhere = {at for at in loop if work.ops[at].device.host != host}
    inputs: dict[int, list[int]] = {at: [] for at in loop}
    for arrow in work.arrows:
        if arrow.source in inputs and arrow.target in inputs:
            inputs[arrow.target].append(arrow.source)
    needed = _needed(inputs, elsewhere)
    gates: dict[int, list[int]] = {}  # by what the clone waits for, as bits
    for at in sorted(elsewhere):
        own = [needed[each] for each in inputs[at] if each not in elsewhere]
        if own:
            gates.setdefault(_either(own), []).append(at)
    order = sorted(elsewhere)
    found = tuple(Gate(frozenset(_chosen(order, bits)), tuple(ops)) for bits, ops in gates.items())
    opened = gathered((each, number) for number, gate in enumerate(found) for each in gate.needed)
    waits = {at: sum(each in elsewhere for each in inputs[at]) for at in order}
    return Abroad(host, work.alike[host] - 1, tuple(order), waits, found, opened)


def _needed(inputs: dict[int, list[int]], elsewhere: set[int]) -> dict[int, int]:
    """Return what each op of the clone itself waits for elsewhere, as bits in the order of the ops there."""
    bits = {at: 1 << place for place, at in enumerate(sorted(elsewhere))}
    found: dict[int, int] = {}
    users = gathered((each, at) for at, sources in inputs.items() for each in sources)
    left = {at: len(sources) for at, sources in inputs.items()}
    ready = [at for at, count in left.items() if count == 0]
    while ready:
        at = ready.pop()
        found[at] = _either(bits[each] if each in bits else found[each] for each in inputs[at])
        for user in users.get(at, ()):
            left[user] -= 1
            if left[user] == 0:
                ready.append(user)
    return found


def _either(all_bits: Iterable[int]) -> int:
    found = 0
    for each in all_bits:
        found |= each
    return found


def _chosen(order: Sequence[int], bits: int) -> Iterator[int]:
    for place, at in enumerate(order):
        if bits >> place & 1:
            yield at
