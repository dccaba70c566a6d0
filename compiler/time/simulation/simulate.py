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
that wait for it in their order. A process that waits for others notices the end of that when it polls next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from math import inf

from attrs import define, field

from compiler.time.costs import Costs
from compiler.time.polling import noticed
from compiler.time.simulation.machines import EPSILON, Machine
from compiler.time.simulation.prepared import Demand, PreparedStep, Send, prepare
from compiler.time.simulation.simulated import Bar, Hop, Simulated, within
from compiler.time.simulation.tasks import Active, Run, Task, Thread
from compiler.time.work import StepWork
from compiler.topology import Device

ROUNDS = 5
"""How many updates of each clone are simulated if clones update by themselves. The first is not counted."""


def simulate(work: StepWork, costs: Costs) -> Simulated:
    """Return when each op of a step runs on machines with these costs.

    Args:
        work: The ops of the step, and what they wait for.
        costs: What ops, threads and links cost.
    """
    found = _Simulation(prepare(work, costs)).run()
    assert found is not None
    return found


def simulate_until(step: PreparedStep, until: float) -> Simulated | None:
    """Return when each op of a step runs, or None if it takes longer than `until`, in seconds.

    Args:
        step: The step.
        until: The longest time that is of interest, in seconds.
    """
    return _Simulation(step).run_until(until)


@define(eq=False)
class _Simulation:
    step: PreparedStep
    now: float = 0.0
    order: int = 0
    events: list[tuple[float, int, Callable[[], None]]] = field(factory=list)
    machines: list[Machine] = field(init=False)
    ends: list[float] = field(init=False)  # by machine: when the next of its tasks ends
    changed: set[int] = field(factory=set)  # the machines of which that has to be found anew
    threads: list[list[Thread]] = field(init=False)  # of each process
    free: list[Thread] = field(factory=list)  # those that may take a task now
    bars: list[Bar] = field(factory=list)
    hops: list[Hop] = field(factory=list)
    streams: dict[int, tuple[float, int | None]] = field(factory=dict)  # by the number of the GPU
    links: dict[tuple[Device, Device], float] = field(factory=dict)
    waiting: dict[tuple[Device, Device], deque[tuple[Task, Send]]] = field(factory=dict)
    held: dict[str, deque[tuple[Task, int]]] = field(factory=dict)  # mutexes, each with who waits for it
    until: float = inf  # the longest time that is of interest
    to_come: dict[int, float] = field(factory=dict)  # by GPU: the seconds of its ops that are not begun
    too_long: bool = False  # whether it has become certain that the step takes longer than that
    _ops: int = field(init=False)  # how many there are; from this number on, tasks are sends

    def __attrs_post_init__(self) -> None:
        step = self.step
        self._ops = len(step.work.ops)
        count = max(step.homes, default=0) + 1
        self.machines = [Machine(step.costs.cores, step.awake) for _ in range(count)]
        self.ends = [inf] * count
        self.threads = [[Thread(at, each) for each in range(step.pool)] for at in range(len(step.homes))]

    # --- the course of time -------------------------------------------------------------------------------

    def run_until(self, until: float) -> Simulated | None:
        """Run the step, or return None as soon as it is certain that it takes longer than `until`."""
        step = self.step
        self.until = until * (1 + EPSILON)
        for number, cost, on_gpu in zip(step.devices, step.op_costs, step.on_gpu, strict=True):
            if on_gpu:
                self.to_come[number] = self.to_come.get(number, 0.0) + cost.alone
        found = self.run()
        return found if found is None or step.work.loops or found.seconds <= until else None

    def run(self) -> Simulated | None:
        """Run the step, or return None as soon as it is certain that it takes longer than is of interest."""
        loops = self.step.work.loops
        groups = loops or (tuple(range(self._ops)),)
        runs = [Run(ops, [], 0, number, ROUNDS if loops else 1) for number, ops in enumerate(groups)]
        for each in runs:
            self._start(each)
        if not self._let_things_happen():
            return None
        if any(each.left for each in runs):
            raise ValueError("some ops wait for each other in a circle")
        return self._result(runs)

    def _let_things_happen(self) -> bool:
        """Go from one thing that happens to the next, until none is left; False if that takes too long."""
        events, ends = self.events, self.ends
        while self.now <= self.until and not self.too_long:
            if self.free:
                self._let_threads_work()
            if self.changed:
                for machine in self.changed:
                    ends[machine] = self.machines[machine].next_end(self.now)
                self.changed.clear()
            ending = min(ends)
            if events and events[0][0] <= ending:
                self.now, _, event = heappop(events)
                event()
            elif ending < inf:
                self.now = ending
                self._finish_tasks(ends.index(ending))
            else:
                return True
        return False

    def _result(self, runs: Sequence[Run]) -> Simulated:
        if not self.step.work.loops:
            end = max((each.end for each in self.bars), default=0.0)
            return Simulated(tuple(self.bars), tuple(self.hops), end)
        first = max(run.done[0] for run in runs)  # from here on, all clones are in their rounds
        last = min(run.done[-1] for run in runs)
        updates = sum(first < at <= last for run in runs for at in run.done)
        bars, hops = within(self.bars, self.hops, first, last)
        return Simulated(bars, hops, last - first, max(1, updates))

    def _start(self, run: Run) -> None:
        """Put what waits for nothing into the queues of the threads, in turn: asking for tensors, and ops."""
        step = self.step
        run.waiting = list(step.waits)
        run.left = len(run.ops)
        if step.work.loops:
            own = set(run.ops)
            run.waiting = [0] * self._ops
            for arrow in step.work.arrows:
                if arrow.source in own and arrow.target in own:
                    run.waiting[arrow.target] += 1
        run.asked.clear()
        asking = [
            each
            for op in run.ops
            for each in step.sent[op]
            if step.sends[each].link.asking and step.sends[each].targets
        ]
        starting = [(step.hosts[step.sends[at].target.host], -1 - at) for at in asking]
        starting += [(step.processes[op], op) for op in run.ops if run.waiting[op] == 0]
        for turn, (process, task) in enumerate(starting):
            pool = self.threads[process]
            pool[turn % len(pool)].queue.append(Task(run, task, self.now))
        for pool in self.threads:
            for thread in pool:
                if thread.queue:
                    thread.idle = False
                    self.free.append(thread)
                else:
                    self._wake(thread)

    def _let_run(self, machine: int, task: Active) -> None:
        """Let a machine run another task."""
        self.machines[machine].begin(task, self.now)
        self.changed.add(machine)

    def _at(self, when: float, event: Callable[[], None]) -> None:
        self.order += 1
        heappush(self.events, (when, self.order, event))

    # --- threads ------------------------------------------------------------------------------------------

    def _let_threads_work(self) -> None:
        """Give each thread that is neither idle nor at work its next task."""
        if len(self.free) > 1:
            self.free.sort(key=lambda each: (each.process, each.number))
        for thread in self.free:
            if not (thread.idle or thread.busy):
                self._take(thread)
        self.free.clear()

    def _take(self, thread: Thread) -> None:
        """Let a thread take its next task, or have nothing to do."""
        if thread.inline:
            task = thread.inline.popleft()
        elif thread.queue:
            task = thread.queue.popleft()
        else:
            found = self._of_others(thread)
            if found is None:
                thread.idle, thread.last = True, None
                return
            task = found
        thread.busy = True
        now, step = self.now, self.step
        seconds, cores, crowding = step.demands[task.op] if 0 <= task.op < self._ops else self._sending(task)
        waited = thread.last is not None and task.ready < now - EPSILON
        after = thread.last if waited else task.cause
        machine, copies = step.homes[thread.process], step.copies[thread.process]
        active = Active(task, thread, now, seconds, cores, crowding, after, _nothing, copies)
        self.machines[machine].begin(active, now)
        self.changed.add(machine)

    def _of_others(self, thread: Thread) -> Task | None:
        """Return the task that a thread takes from another one of its process, if there is any."""
        pool = self.threads[thread.process]
        for further in range(1, len(pool)):
            victim = pool[(thread.number + further) % len(pool)]
            if victim.queue:
                return victim.queue.pop()
        return None

    def _sending(self, task: Task) -> Demand:
        """Return what a task asks of its thread that sends a tensor, or asks for one."""
        return self.step.asking[-1 - task.op] if task.op < 0 else self.step.giving[task.op - self._ops]

    def _wake(self, thread: Thread) -> None:
        """Let a thread without work look for some after the time that this takes."""
        if thread.idle and not thread.waking:
            thread.waking = True
            self._at(self.now + self.step.costs.hand_over, partial(self._look_for_work, thread))

    def _look_for_work(self, thread: Thread) -> None:
        thread.waking = False
        thread.idle = False
        self.free.append(thread)

    def _give(self, tasks: Sequence[Task], thread: Thread | None, process: int) -> None:
        """Put tasks into the pool of a process: the queue of the thread that gives them, or another."""
        pool = self.threads[process]
        own = thread.queue if thread is not None and thread.process == process else None
        for task in tasks:
            if own is not None:
                own.appendleft(task)
            else:
                min(pool, key=lambda each: len(each.queue)).queue.append(task)
            for each in pool:
                if each.idle and not each.waking:
                    self._wake(each)
                    break

    # --- ops ----------------------------------------------------------------------------------------------

    def _finish_tasks(self, machine: int) -> None:
        """End the tasks of a machine that end now, and do what follows."""
        self.changed.add(machine)
        for each in self.machines[machine].take_ended(self.now):
            if each.thread is None or each.task is None:
                each.ended()
                continue
            each.thread.busy = False
            self.free.append(each.thread)
            op = each.task.op
            if op < 0:
                self._asked(each.task)
            elif op >= self._ops:
                self._sent(each.task, each.thread)
            elif self.step.on_gpu[op]:
                self._launched(each, each.task, each.thread)
            else:
                self._ran(each, each.task, each.thread)

    def _ran(self, done: Active, task: Task, thread: Thread) -> None:
        """Note an op of a CPU that is done; one that takes a mutex is only done when it has it."""
        bar = self._note(task, thread.number, done.start, self.now, done.began_after)
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
        start = max(self.now, free)
        end = start + step.op_costs[op].alone
        after = before if free > self.now and before is not None else done.began_after
        bar = self._note(task, -1, start, end, after)
        self.streams[device] = (end, bar)
        if self.until < inf:
            self.to_come[device] -= end - start
            self.too_long = self.too_long or end + self.to_come[device] > self.until
        self._tell(task, thread, bar)
        if step.sent[op] or step.work.loops:
            self._at(end, partial(self._done_on_gpu, task, bar))
        else:
            self._one_less(task.run)  # nothing follows on its end

    def _done_on_gpu(self, task: Task, bar: int) -> None:
        self._give(self._sends_of(task, bar), None, self.step.processes[task.op])
        self._one_less(task.run)

    def _complete(self, task: Task, thread: Thread, bar: int) -> None:
        """Tell the ops that wait for one that is done."""
        thread.inline.extend(self._sends_of(task, bar))
        self._tell(task, thread, bar)
        self._one_less(task.run)

    def _sends_of(self, task: Task, bar: int) -> list[Task]:
        """Return the tasks that send what an op has made."""
        return [Task(task.run, self._ops + each, self.now, bar) for each in self.step.sent[task.op]]

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
            self._give(given, thread, thread.process)

    def _ready(self, run: Run, targets: Sequence[int], bar: int, over: int | None) -> list[Task]:
        """Count an input of each target as there; return the targets that are now ready."""
        found = []
        ops, waiting = self.step.work.ops, run.waiting
        for target in targets:
            waiting[target] -= 1
            polls = ops[target].polls
            if polls and ops[self.bars[bar].op].device == ops[target].device:
                run.polled[target] = self.now
            if waiting[target] != 0:
                continue
            task = Task(run, target, self.now, bar, over)
            if polls:
                self._at(self._noticed(task), partial(self._notice, task))
            else:
                found.append(task)
        return found

    def _noticed(self, task: Task) -> float:
        """Return when a process that polls notices that what it waits for is there."""
        began = task.run.polled.get(task.op, self.now)
        return noticed(began, self.now, self.step.costs.step_start)

    def _notice(self, task: Task) -> None:
        process = self.step.processes[task.op]
        self._begin(process, lambda: self._give([task], None, process))

    def _begin(self, process: int, then: Callable[[], None]) -> None:
        """Let a process run a graph again, which takes cores before its first op."""
        costs, copies = self.step.costs, self.step.copies[process]
        starting = Active(None, None, self.now, costs.step_start, costs.start_cores, 1.0, None, then, copies)
        self._let_run(self.step.homes[process], starting)

    def _one_less(self, run: Run) -> None:
        run.left -= 1
        if run.left == 0:
            run.done.append(self.now)
            run.rounds -= 1
            if run.rounds > 0:
                self._begin(self.step.processes[run.ops[0]], partial(self._start, run))

    # --- transfers ----------------------------------------------------------------------------------------

    def _sent(self, task: Task, thread: Thread | None) -> None:
        """Bring a tensor to another device."""
        number = task.op - self._ops
        send = self.step.sends[number]
        link = send.link
        if link.asking and send.targets and number not in task.run.asked:
            task.run.early[number] = task
            return
        taken = link.seconds(send.size)
        if taken == 0 and link.latency == 0:
            self._arrived(task, send, None, thread)
            return
        pair = (send.source, send.target)
        if not send.targets:  # it goes to processes that are not simulated, over links of their own
            cores = link.cores(send.size) / (1 if self.step.work.one_machine else 2)
            if cores > 0:
                active = Active(task, None, self.now, taken, cores, 1.0, None, _nothing, send.times)
                self._let_run(self._home(send.source), active)
            return
        if link.cores(send.size) > 0:
            self.waiting.setdefault(pair, deque()).append((task, send))
            if len(self.waiting[pair]) == 1:
                self._carry(pair)
            return
        start = max(self.now, self.links.get(pair, 0.0))
        self.links[pair] = start + taken
        self._bring(task, send, start, start + taken + link.latency)

    def _bring(self, task: Task, send: Send, start: float, end: float) -> None:
        """Note that a link carries a tensor, and let it arrive."""
        assert task.cause is not None
        hop = len(self.hops)
        self.hops.append(Hop(send.source, send.target, send.tensor, send.size, start, end, task.cause))
        self._at(end, partial(self._arrived, task, send, hop, None))

    def _asked(self, task: Task) -> None:
        """Bring a tensor that has been asked for, if it is already there."""
        task.run.asked.add(-1 - task.op)
        early = task.run.early.pop(-1 - task.op, None)
        if early is not None:
            self._sent(early, None)

    def _carry(self, pair: tuple[Device, Device]) -> None:
        """Let a link carry the first tensor that waits for it, which uses the cores of both ends."""
        task, send = self.waiting[pair][0]
        link = send.link
        machines = [self._home(each) for each in pair]
        began, taken = self.now, link.seconds(send.size)

        def ended() -> None:
            self._bring(task, send, began, self.now + link.latency)
            self.waiting[pair].popleft()
            if self.waiting[pair]:
                self._carry(pair)

        ends = (ended,) if machines[0] == machines[1] else (ended, _nothing)
        of_source = self.step.work.alike.get(pair[0].host, 1)
        at_ends = (send.times * of_source,) if len(ends) == 1 else (send.times, of_source)
        for machine, end, copies in zip(machines, ends, at_ends, strict=False):
            cores = link.cores(send.size) / len(ends)
            self._let_run(machine, Active(task, None, self.now, taken, cores, 1.0, None, end, copies))

    def _home(self, device: Device) -> int:
        """Return the number of the machine that a device is in."""
        return self.step.homes[self.step.hosts[device.host]]

    def _arrived(self, task: Task, send: Send, hop: int | None, thread: Thread | None) -> None:
        assert task.cause is not None
        ready = self._ready(task.run, send.targets, task.cause, hop)
        if ready:
            self._give(ready, thread, self.step.processes[ready[0].op])


def _nothing() -> None:
    """Do nothing: what follows is done for the thread, or once for both machines of a transfer."""
