"""The rounds of clones that are not simulated, because another one stands in for them; see `others.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from attrs import define, field

from compiler.time.simulation.machines import Clock
from compiler.time.simulation.others import TOGETHER, Gate, groups_of
from compiler.time.simulation.prepared import PreparedStep, Send
from compiler.time.simulation.tasks import Active, Run, Task
from compiler.time.simulation.threads import Threads


@define(eq=False)
class StandIns:
    """What servers do for clones that are not simulated.

    Attributes:
        step: The step of all clones.
        clock: The time.
        threads: The threads of the servers.
        simulated: The runs of the clones that are simulated, by number.
        runs: The runs of the others, several clones together in each.
    """

    step: PreparedStep
    clock: Clock
    threads: Threads
    simulated: Sequence[Run]
    runs: list[Run] = field(factory=list)

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
        costs, copies = step.costs, run.times
        task = Active(None, None, 0.0, costs.step_start, costs.start_cores, 1.0, None, start, copies)
        self.clock.at(now + seen.rest, partial(self.clock.let_run, step.homes[step.processes[first]], task))

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
    """Whether clones that are not simulated send something: to their own devices, or what they need.

    Args:
        run: The run of these clones.
        send: What one of them would send if it were simulated.
    """
    assert run.seen is not None
    abroad = run.seen.abroad
    return send.target.host == abroad.host or any(each in abroad.waits for each in send.targets)
