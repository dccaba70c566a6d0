"""A simulation of one step: when each op runs, on which thread, and what it waits for.

It follows TensorFlow's executor. An op is ready when the last of its inputs is there. The thread that has
made an op ready runs it next if it is short; of several long ones it keeps one, and the pool of threads gets
the others. A thread takes ops from its own queue, the newest first, and then from those of other threads, the
oldest first. Ops that wait for nothing are put into the queues when the step starts.

A tensor from another process is asked for when the step starts, which takes time of a thread of the receiver
before it turns to its ops, and handing it over takes time of a thread of the sender.

The threads of a machine share its cores. If more is asked for than there are cores, everything is slower in
proportion; and an op beside others is slowed as it was measured to be. An op of a GPU is started by a thread
and then runs behind the other ops of that GPU. A link carries one tensor at a time. A mutex is given to those
that wait for it in their order. A process that waits for others begins another run when they are done.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import partial

from attrs import define, field

from compiler.figures import gathered
from compiler.time.costs import Costs
from compiler.time.simulation.machines import Active, Clock, Machine, Run, Seen, Task, Thread
from compiler.time.simulation.others import StandIns, all_abroad, is_sent_by
from compiler.time.simulation.prepared import PreparedStep, Send, prepare
from compiler.time.simulation.simulated import Bar, Simulated, rounds_between, within
from compiler.time.simulation.threads import Threads, Transfers
from compiler.time.work import StepWork

ROUNDS = 5
"""How many updates of each clone are simulated, at least, if clones update by themselves: the others go on
until the slowest has made as many. The first is not counted."""

BEFORE = 1
"""How many updates more there are if clones stand for others, which begin when one of them has been seen."""


def simulate(work: StepWork, costs: Costs) -> Simulated:
    """Return when each op of a step runs on machines with these costs."""
    return _Simulation(prepare(work, costs)).run()


@define(eq=False)
class _Simulation:
    step: PreparedStep
    clock: Clock = field(init=False)
    threads: Threads = field(init=False)
    transfers: Transfers = field(init=False)
    others: StandIns = field(init=False)
    bars: list[Bar] = field(factory=list)
    streams: dict[int, tuple[float, int | None]] = field(factory=dict)  # by the number of the GPU
    held: dict[str, deque[tuple[Task, int]]] = field(factory=dict)  # mutexes, each with who waits for it
    ended: bool = False  # whether enough was seen of clones that update by themselves
    _runs: list[Run] = field(factory=list)
    _before: int = 0  # how many rounds are not counted, because others begin only then
    _ops: int = field(init=False)  # how many there are; from this number on, tasks are sends
    _inputs: list[dict[int, int]] = field(init=False)  # by loop: how many inputs each op has in it

    def __attrs_post_init__(self) -> None:
        step = self.step
        self._ops = len(step.work.ops)
        self._inputs = _inputs_in_loops(step.work)
        count = max(step.homes, default=0) + 1
        self.clock = Clock([Machine(step.costs.cores, step.awake) for _ in range(count)])
        self.threads = Threads(step, self.clock)
        self.transfers = Transfers(step, self.clock, self._arrived)
        self.others = StandIns(step, self.clock, self.threads, self._runs)

    # --- rounds -------------------------------------------------------------------------------------------

    def run(self) -> Simulated:
        loops = self.step.work.loops
        groups = loops or (tuple(range(self._ops)),)
        self._before = BEFORE if loops and self.step.work.alike else 0
        runs = self._runs
        runs += [Run(ops, [], 0, number) for number, ops in enumerate(groups)]
        for number, abroad in all_abroad(self.step.work):
            runs[number].seen = Seen(abroad)
        for each in runs:
            self._start(each)
        self._let_things_happen()
        if any(each.left for each in runs) and not self.ended:
            raise ValueError("some ops wait for each other in a circle")
        return self._result()

    def _let_things_happen(self) -> None:
        """Go from one thing that happens to the next, until none is left."""
        while not self.ended:
            if self.threads.free:
                self.threads.let_work()
            ended = self.clock.go_on()
            if ended is None:
                return
            for each in ended:
                self._end(each)

    def _result(self) -> Simulated:
        if not self.step.work.loops:
            end = max((each.end for each in self.bars), default=0.0)
            return Simulated(tuple(self.bars), tuple(self.transfers.hops), end)
        counted = self._counted()
        first = max(done[0] for done, _ in counted)  # from here on, all clones are in their rounds
        last = self.clock.now
        self._note_what_goes_on()
        updates = sum(times * rounds_between(done, first, last) for done, times in counted)
        bars, hops = within(self.bars, self.transfers.hops, first, last)
        return Simulated(bars, hops, last - first, updates)

    def _note_what_goes_on(self) -> None:
        """Note the ops that still run on threads as if they ended now."""
        for machine in self.clock.machines:
            for each in machine.tasks:
                task, thread = each.task, each.thread
                if thread is not None and task is not None and self._runs_there(task):
                    self._note(task, thread.number, each.start, self.clock.now, each.began_after)

    def _runs_there(self, task: Task) -> bool:
        """Whether a task is an op, and its thread does more than start it on a GPU."""
        return 0 <= task.op < self._ops and not self.step.on_gpu[task.op]

    def _counted(self) -> list[tuple[Sequence[float], int]]:
        """Return when rounds ended, and for how many clones: those that begin when all clones are there."""
        own: list[tuple[Sequence[float], int]] = [(each.done[self._before :], 1) for each in self._runs]
        return own + [(each.done, each.times) for each in self.others.runs]

    def _is_enough(self) -> bool:
        """Whether enough was seen of clones that update by themselves: some rounds of the slowest."""
        counted = [done for done, _ in self._counted()]
        if not all(counted):
            return False
        first = max(done[0] for done in counted)
        return all(sum(at > first for at in done) >= ROUNDS - 1 for done in counted)

    def _start(self, run: Run) -> None:
        """Put what waits for nothing into the queues of the threads, in turn: asking for tensors, and ops."""
        step = self.step
        run.waiting = list(step.waits) if not step.work.loops else defaultdict(int, self._inputs[run.number])
        run.left = len(run.ops)
        if run.seen is not None:
            run.seen.begin(self.clock.now)
            if len(run.done) == BEFORE:
                self.others.begin(run)
        run.asked.clear()
        asking = [
            each
            for op in run.ops
            for each in step.sent[op]
            if step.sends[each].link.asking and step.sends[each].targets
        ]
        starting = [(step.hosts[step.sends[at].target.host], -1 - at) for at in asking]
        starting += [(step.processes[op], op) for op in run.ops if run.waiting[op] == 0]
        self.threads.start((process, Task(run, task, self.clock.now)) for process, task in starting)

    def _one_less(self, run: Run) -> None:
        run.left -= 1
        if run.left > 0:
            return
        run.done.append(self.clock.now)
        if not self.step.work.loops:
            return
        self.ended = self._is_enough()
        if run.shut is not None:
            self.others.pause(run)
            return
        if run.seen is not None:
            run.seen.end(self.clock.now)
        self.threads.begin(self.step.processes[run.ops[0]], partial(self._start, run))

    # --- ops ----------------------------------------------------------------------------------------------

    def _end(self, done: Active) -> None:
        """Do what follows a task that has ended."""
        task, thread = done.task, done.thread
        if thread is None or task is None:
            done.ended()
            return
        thread.busy = False
        self.threads.free.append(thread)
        if task.op < 0:
            self.transfers.ask(task, -1 - task.op)
        elif task.op >= self._ops:
            self.transfers.send(task, task.op - self._ops, thread)
        elif self.step.on_gpu[task.op]:
            self._launched(done, task, thread)
        else:
            self._ran(done, task, thread)

    def _ran(self, done: Active, task: Task, thread: Thread) -> None:
        """Note an op of a CPU that is done; one that takes a mutex is only done when it has it."""
        bar = self._note(task, thread.number, done.start, self.clock.now, done.began_after)
        thread.last = bar
        op = self.step.work.ops[task.op]
        if op.enters and op.enters in self.held:
            self.held[op.enters].append((task, bar))
            return
        if op.enters:
            self.held[op.enters] = deque()
        self._complete(task, thread, bar)
        if op.leaves:
            self._leave(op.leaves, thread)

    def _leave(self, mutex: str, thread: Thread) -> None:
        """Give a mutex to the one that has waited for it longest."""
        waiting = self.held.get(mutex)
        if waiting:
            self._complete(waiting[0][0], thread, waiting.popleft()[1])
        else:
            self.held.pop(mutex, None)

    def _note(self, task: Task, thread: int, start: float, end: float, after: int | None) -> int:
        over = task.over if after == task.cause else None
        self.bars.append(Bar(task.op, thread, task.ready, start, end, after, over))
        return len(self.bars) - 1

    def _launched(self, done: Active, task: Task, thread: Thread) -> None:
        """Put an op into the stream of its GPU; what is behind it there can be started at once."""
        step, op = self.step, task.op
        device = step.devices[op]
        free, before = self.streams.get(device, (0.0, None))
        start = max(self.clock.now, free)
        end = start + step.op_costs[op].alone * task.run.times
        after = before if free > self.clock.now and before is not None else done.began_after
        bar = self._note(task, -1, start, end, after)
        self.streams[device] = (end, bar)
        self._tell(task, thread, bar)
        if step.sent[op] or step.work.loops:
            self.clock.at(end, partial(self._done_on_gpu, task, bar))
        else:
            self._one_less(task.run)  # nothing follows on its end

    def _done_on_gpu(self, task: Task, bar: int) -> None:
        if task.run.seen is not None:
            self.others.see(task)
        self.threads.give(self._sends_of(task, bar), None, self.step.processes[task.op])
        self._one_less(task.run)

    def _complete(self, task: Task, thread: Thread, bar: int) -> None:
        """Tell the ops that wait for one that is done."""
        if task.run.seen is not None:
            self.others.see(task)
        thread.inline.extend(self._sends_of(task, bar))
        self._tell(task, thread, bar)
        self._one_less(task.run)

    def _sends_of(self, task: Task, bar: int) -> list[Task]:
        """Return the tasks that send what an op has made."""
        sent = self.step.sent[task.op]
        if task.run.shut is not None:
            sent = [each for each in sent if is_sent_by(task.run, self.step.sends[each])]
        return [Task(task.run, self._ops + each, self.clock.now, bar) for each in sent]

    def _tell(self, task: Task, thread: Thread, bar: int) -> None:
        """Schedule the ops of the same device that are ready now, as TensorFlow's executor does."""
        kept: Task | None = None
        given: list[Task] = []
        for each in self._ready(task.run, self.step.local[task.op], bar, None):
            if self.step.short[each.op]:
                thread.inline.append(each)
                continue
            if kept is not None:
                given.append(kept)
            kept = each
        if kept is not None:
            if thread.inline:
                given.append(kept)
            else:
                thread.inline.append(kept)
        if given:
            self.threads.give(given, thread, thread.process)

    def _ready(self, run: Run, targets: Sequence[int], bar: int, over: int | None) -> list[Task]:
        """Count an input of each target as there; return the targets that are now ready."""
        found = []
        ops, waiting = self.step.work.ops, run.waiting
        if run.seen is not None and run.shut is None and self.bars[bar].op not in run.seen.abroad.waits:
            run.seen.there.update((each, self.clock.now) for each in targets if each in run.seen.abroad.waits)
        for target in targets:
            waiting[target] -= 1
            if waiting[target] != 0:
                continue
            task = Task(run, target, self.clock.now, bar, over)
            if ops[target].begins:
                self._begin_again(task)
            else:
                found.append(task)
        return found

    def _begin_again(self, task: Task) -> None:
        """Begin another run of a process with a task."""
        process = self.step.processes[task.op]
        self.threads.begin(process, lambda: self.threads.give([task], None, process))

    def _arrived(self, task: Task, send: Send, hop: int | None, thread: Thread | None) -> None:
        assert task.cause is not None
        ready = self._ready(task.run, send.targets, task.cause, hop)
        if ready:
            self.threads.give(ready, thread, self.step.processes[ready[0].op])


def _inputs_in_loops(work: StepWork) -> list[dict[int, int]]:
    """Return how many inputs each op has from ops of the same loop, by loop."""
    found: list[dict[int, int]] = [dict.fromkeys(loop, 0) for loop in work.loops]
    loops = gathered((at, number) for number, loop in enumerate(work.loops) for at in loop)
    if loops:
        for arrow in work.arrows:
            for number in loops.get(arrow.source, ()):
                if arrow.target in found[number]:
                    found[number][arrow.target] += 1
    return found
