"""What servers do for clones that are not simulated, because another one stands for them.

Clones that update by themselves do not step together. Each of the others goes through its own rounds: what it
does on the devices of other processes is simulated, and what it does on its own takes as long as that of the
clone that stands for it took in its last round. Several of the others are together, so that each of their ops
takes several times as long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from graphlib import TopologicalSorter

from attrs import define, field

from compiler.figures import gathered
from compiler.time.simulation.machines import Abroad, Clock, Gate, Run, Task
from compiler.time.simulation.prepared import PreparedStep, Send
from compiler.time.simulation.threads import Threads
from compiler.time.work import StepWork
from compiler.topology import Host

TOGETHER = 16
"""How many groups of others there are at most, for each process that stands for others."""


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
    needed, order = _needed(inputs, elsewhere), sorted(elsewhere)
    before = {at: [needed[each] for each in inputs[at] if each not in elsewhere] for at in order}
    gates = gathered((frozenset[int]().union(*own), at) for at, own in before.items() if own)
    found = tuple(Gate(needed, tuple(ops)) for needed, ops in gates.items())
    opened = gathered((each, number) for number, gate in enumerate(found) for each in gate.needed)
    waits = {at: sum(each in elsewhere for each in inputs[at]) for at in order}
    return Abroad(host, work.alike[host] - 1, tuple(order), waits, found, opened)


def _needed(inputs: dict[int, list[int]], elsewhere: set[int]) -> dict[int, frozenset[int]]:
    """Return the ops elsewhere for which each op of the clone itself waits."""
    found: dict[int, frozenset[int]] = {}
    for at in TopologicalSorter(inputs).static_order():
        found[at] = frozenset().union(*({each} if each in elsewhere else found[each] for each in inputs[at]))
    return found


# --- the rounds of clones that are not simulated ----------------------------------------------------------


@define(eq=False)
class StandIns:
    """What servers do for clones that are not simulated."""

    step: PreparedStep
    clock: Clock
    threads: Threads
    simulated: Sequence[Run]  # the runs of the clones that are simulated, by number
    runs: list[Run] = field(factory=list)  # the runs of the others, several clones together in each

    def begin(self, run: Run) -> None:
        """Let those begin for which the clone of a run stands, together with it."""
        assert run.seen is not None
        abroad = run.seen.abroad
        alike = sum(each.seen is not None and each.seen.abroad.host == abroad.host for each in self.simulated)
        for count in groups_of(abroad.count, TOGETHER // alike):
            others = Run(abroad.ops, [], 0, run.number, times=count, seen=run.seen, shut=[])
            self.runs.append(others)
            self.clock.at(self.clock.now, partial(self._start, others))

    def see(self, task: Task) -> None:
        """Note that an op is done, of a clone that stands for others or of these."""
        run = task.run
        assert run.seen is not None
        if run.shut is None:
            if task.op in run.seen.abroad.waits:
                run.seen.done[task.op] = self.clock.now
            return
        for number in run.seen.abroad.opened.get(task.op, ()):
            run.shut[number] -= 1
            if run.shut[number] == 0:
                self._open(run, run.seen.abroad.gates[number])

    def pause(self, run: Run) -> None:
        """Let clones that are not simulated begin their next round after what remains of this one."""
        assert run.seen is not None
        seen, step, now = run.seen, self.step, self.clock.now
        first, start = self.simulated[run.number].ops[0], partial(self._start, run)
        if first not in seen.abroad.waits:  # their graph is run by a process that is not simulated
            self.clock.at(now + seen.rest + seen.pause, start)
            return
        self.clock.at(now + seen.rest, partial(self.threads.begin, step.processes[first], start, run.times))

    def _start(self, run: Run) -> None:
        """Let clones that are not simulated begin a round."""
        assert run.seen is not None
        step, abroad, now = self.step, run.seen.abroad, self.clock.now
        waiting = defaultdict(int, abroad.waits)
        for gate in abroad.gates:
            for op in gate.ops:
                waiting[op] += 1
        run.waiting, run.left = waiting, len(run.ops)
        run.shut = [len(each.needed) for each in abroad.gates]
        run.asked.clear()
        for op in abroad.ops:
            for each in step.sent[op]:
                send = step.sends[each]
                if send.link.asking and send.targets and send.target.host != abroad.host:
                    self.threads.give([Task(run, -1 - each, now)], None, step.hosts[send.target.host])
            if waiting[op] == 0:
                self.threads.give([Task(run, op, now)], None, step.processes[op])
        for gate in abroad.gates:
            if not gate.needed:
                self._open(run, gate)

    def _open(self, run: Run, gate: Gate) -> None:
        """Let ops get what clones that are not simulated make on their own devices."""
        assert run.seen is not None
        for op in gate.ops:
            self.clock.at(self.clock.now + run.seen.delays[op], partial(self._get, run, op))

    def _get(self, run: Run, op: int) -> None:
        run.waiting[op] -= 1
        if run.waiting[op] == 0:
            self.threads.give([Task(run, op, self.clock.now)], None, self.step.processes[op])


def is_sent_by(run: Run, send: Send) -> bool:
    """Whether clones that are not simulated send something: to their own devices, or what they need."""
    assert run.seen is not None
    abroad = run.seen.abroad
    return send.target.host == abroad.host or any(each in abroad.waits for each in send.targets)
