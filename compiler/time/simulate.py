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
from heapq import heappop, heappush
from math import inf
from typing import Any

from attrs import define, field

from compiler.time.cores import speeds, spread
from compiler.time.costs import Cost, Costs, Link
from compiler.time.polling import noticed
from compiler.time.simulated import Bar, Hop, Simulated, within
from compiler.time.tasks import Active, Run, Send, Task, Thread
from compiler.time.work import Echo, StepWork
from compiler.topology import Device, Host

SHORT = 3e-6
"""Ops that take less than this, in seconds, stay on the thread that has made them ready.

TensorFlow counts 8,000 cycles of the processor.
"""

ROUNDS = 5
"""How many updates of each clone are simulated if clones update by themselves. The first is not counted."""

_EPSILON = 1e-12


def simulate(work: StepWork, costs: Costs) -> Simulated:
    """Return when each op of a step runs on machines with these costs.

    Args:
        work: The ops of the step, and what they wait for.
        costs: What ops, threads and links cost.
    """
    found = _Simulation(work, costs).run()
    assert found is not None
    return found


def simulate_until(work: StepWork, costs: Costs, until: float) -> Simulated | None:
    """Return when each op of a step runs, or None if it takes longer than `until`, in seconds.

    Args:
        work: The ops of the step.
        costs: What they cost on the machines.
        until: The longest time that is of interest, in seconds.
    """
    return _Simulation(work, costs).run_until(until)


@define(eq=False)
class _Simulation:
    work: StepWork
    costs: Costs
    now: float = 0.0
    order: int = 0
    events: list[tuple[float, int, Any]] = field(factory=list)
    active: list[list[Active]] = field(factory=list)  # of each machine
    rates: list[list[float]] = field(factory=list)  # how fast these are now
    since: list[float] = field(factory=list)  # by machine: until when it is known what these have left
    ends: list[float] = field(factory=list)  # by machine: when the next of these ends
    changed: set[int] = field(factory=set)  # the machines of which that has to be found anew
    threads: list[list[Thread]] = field(factory=list)  # of each process
    free: list[Thread] = field(factory=list)  # those that may take a task now
    bars: list[Bar] = field(factory=list)
    hops: list[Hop] = field(factory=list)
    numbers: list[int] = field(factory=list)  # by op: that of its device
    streams: dict[int, tuple[float, int | None]] = field(factory=dict)  # by the number of the GPU
    links: dict[tuple[Device, Device], float] = field(factory=dict)
    waiting: dict[tuple[Device, Device], deque[tuple[Task, Send, Link]]] = field(factory=dict)
    hosts: dict[Host, int] = field(factory=dict)  # the numbers of processes
    op_costs: list[Cost] = field(factory=list)
    on_gpu: list[bool] = field(factory=list)  # by op
    local: list[list[int]] = field(factory=list)  # by op: the ops on its device that wait for it
    sends: list[Send] = field(factory=list)
    sent: list[list[int]] = field(factory=list)  # by op: its sends
    ways: list[Link] = field(factory=list)  # by send
    arrows_in: list[int] = field(factory=list)
    processes: list[int] = field(factory=list)  # by op
    machines: list[int] = field(factory=list)  # by process
    copies: list[int] = field(factory=list)  # by process: how many on its machine it stands for
    inner: list[int] = field(factory=list)  # by process: the threads that may work on one op
    awake: float = 1.0  # the cores that a process uses at least
    held: dict[str, deque[tuple[Task, int]]] = field(factory=dict)  # mutexes, each with who waits for it
    until: float = inf  # the longest time that is of interest
    to_come: dict[int, float] = field(factory=dict)  # by GPU: the seconds of its ops that are not begun
    too_long: bool = False  # whether it has become certain that the step takes longer than that

    def __attrs_post_init__(self) -> None:
        work, costs = self.work, self.costs
        hosts = list(dict.fromkeys(None if work.one_process else each.host for each in work.devices))
        number = {host: at for at, host in enumerate(hosts)}
        self.hosts = {each.host: number[None if work.one_process else each.host] for each in work.devices}
        self.processes = [number[None if work.one_process else op.device.host] for op in work.ops]
        threads = max(1, work.op_threads or costs.cores)
        inner = [work.inner_threads if host is None else work.threads_of(host) for host in hosts]
        self.inner = [max(1, each or costs.cores) for each in inner]
        self.awake = min(float(max(self.inner)), costs.awake) if work.looking else 1.0
        self.threads = [[Thread(at, each) for each in range(threads)] for at in range(len(hosts))]
        self.machines = [0 if work.one_machine else at for at in range(len(hosts))]
        shared = {number[host]: count for host, count in work.alike.items()} if work.one_machine else {}
        self.copies = [shared.get(at, 1) for at in range(len(hosts))]
        self.active = [[] for _ in range(len(hosts))]
        self.rates = [[] for _ in range(len(hosts))]
        self.since = [0.0] * len(hosts)
        self.ends = [inf] * len(hosts)
        self.op_costs = [costs.of(op) for op in work.ops]
        self.on_gpu = [work.on_gpu(op) for op in work.ops]
        self.local = [[] for _ in work.ops]
        self.sent = [[] for _ in work.ops]
        self.arrows_in = [0] * len(work.ops)
        self.numbers = work.device_numbers()
        self._connect()

    def _connect(self) -> None:
        """Note for each op what it tells: ops on its device, and once for each device what crosses to it."""
        numbers, ops = self.numbers, self.work.ops
        known: dict[tuple[int, str, int], int] = {}
        links: dict[tuple[int, int], Link] = {}
        for arrow in self.work.arrows:
            source, target = numbers[arrow.source], numbers[arrow.target]
            self.arrows_in[arrow.target] += 1
            if source == target:
                self.local[arrow.source].append(arrow.target)
                continue
            key = (arrow.source, arrow.tensor, target)
            if key not in known:
                ends = ops[arrow.source].device, ops[arrow.target].device
                if (source, target) not in links:
                    links[source, target] = self.costs.link(*ends)
                known[key] = len(self.sends)
                self.sends.append(Send(*ends, arrow.tensor, arrow.bytes))
                self.ways.append(links[source, target])
                self.sent[arrow.source].append(known[key])
            self.sends[known[key]].targets.append(arrow.target)
        for echo in self.work.echoes:
            self._send_to_others(echo)

    def _send_to_others(self, echo: Echo) -> None:
        """Let an op hand a tensor to processes that are not simulated, before it does so to that which is."""
        alike = self.work.alike
        own = [self.sends[each] for each in self.sent[echo.source]]
        send = next((each for each in own if each.target.host in alike), None)
        if send is not None:
            send.times += echo.count
            return
        self.sent[echo.source].append(len(self.sends))
        source = self.work.ops[echo.source].device
        self.sends.append(Send(source, echo.target, echo.tensor, echo.bytes, times=echo.count))
        self.ways.append(self.costs.link(source, echo.target))

    # --- the course of time -------------------------------------------------------------------------------

    def run_until(self, until: float) -> Simulated | None:
        """Run the step, or return None as soon as it is certain that it takes longer than `until`."""
        self.until = until * (1 + _EPSILON)
        for number, cost, on_gpu in zip(self.numbers, self.op_costs, self.on_gpu, strict=True):
            if on_gpu:
                self.to_come[number] = self.to_come.get(number, 0.0) + cost.alone
        found = self.run()
        return found if found is None or self.work.loops or found.seconds <= until else None

    def run(self) -> Simulated | None:
        loops = self.work.loops
        groups = loops or (tuple(range(len(self.work.ops))),)
        runs = [self._new_run(number, ops, ROUNDS if loops else 1) for number, ops in enumerate(groups)]
        for each in runs:
            self._start(each)
        while self.now <= self.until and not self.too_long:
            if self.free:
                self._let_threads_work()
            if self.changed:
                self._look_ahead()
            ending = min(self.ends)
            if self.events and self.events[0][0] <= ending:
                self.now, _, event = heappop(self.events)
                event()
            elif ending < inf:
                self.now = ending
                self._finish_tasks(self.ends.index(ending))
            else:
                break
        else:
            return None
        if any(each.left for each in runs):
            raise ValueError("some ops wait for each other in a circle")
        return self._result(runs)

    def _result(self, runs: Sequence[Run]) -> Simulated:
        if not self.work.loops:
            end = max((each.end for each in self.bars), default=0.0)
            return Simulated(tuple(self.bars), tuple(self.hops), end)
        first = max(run.done[0] for run in runs)  # from here on, all clones are in their rounds
        last = min(run.done[-1] for run in runs)
        updates = sum(first < at <= last for run in runs for at in run.done)
        bars, hops = within(self.bars, self.hops, first, last)
        return Simulated(bars, hops, last - first, max(1, updates))

    def _new_run(self, number: int, ops: Sequence[int], rounds: int) -> Run:
        return Run(ops, [], 0, number, rounds)

    def _start(self, run: Run) -> None:
        """Put what waits for nothing into the queues of the threads, in turn: asking for tensors, and ops."""
        run.waiting = list(self.arrows_in)
        run.left = len(run.ops)
        if self.work.loops:
            own = set(run.ops)
            run.waiting = [0] * len(self.arrows_in)
            for arrow in self.work.arrows:
                if arrow.source in own and arrow.target in own:
                    run.waiting[arrow.target] += 1
        run.asked.clear()
        asking = [
            each
            for op in run.ops
            for each in self.sent[op]
            if self.ways[each].asking and self.sends[each].targets
        ]
        starting = [(self.hosts[self.sends[at].target.host], -1 - at) for at in asking]
        starting += [(self.processes[op], op) for op in run.ops if run.waiting[op] == 0]
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

    def _let_time_pass(self, machine: int) -> None:
        """Note what the tasks of a machine have left now, before others come or some go."""
        passed = self.now - self.since[machine]
        if passed > 0:
            for each, speed in zip(self.active[machine], self.rates[machine], strict=True):
                each.left -= passed * speed
        self.since[machine] = self.now
        self.changed.add(machine)

    def _let_run(self, machine: int, task: Active) -> None:
        """Let a machine run another task."""
        self._let_time_pass(machine)
        self.active[machine].append(task)
        self.rates[machine].append(0.0)  # until `_look_ahead` finds it

    def _look_ahead(self) -> None:
        """Find how fast tasks are now, and which ends next, on the machines where others run than before."""
        for machine in self.changed:
            tasks = self.active[machine]
            rates = speeds(tasks, self.costs.cores, self.awake) if tasks else []
            self.rates[machine] = rates
            soonest = inf
            for each, speed in zip(tasks, rates, strict=True):
                soonest = min(soonest, self.now + each.left / speed if each.left > 0 else self.now)
            self.ends[machine] = soonest
        self.changed.clear()

    def _at(self, when: float, event: Any) -> None:
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
        task = None
        if thread.inline:
            task = thread.inline.popleft()
        elif thread.queue:
            task = thread.queue.popleft()
        else:
            pool = self.threads[thread.process]
            for step in range(1, len(pool)):
                victim = pool[(thread.number + step) % len(pool)]
                if victim.queue:
                    task = victim.queue.pop()
                    break
        if task is None:
            thread.idle, thread.last = True, None
            return
        thread.idle, thread.busy = False, True
        seconds, demand, crowding = self._asks(task.op)
        copies = self.copies[thread.process]
        waited = task.ready < self.now - _EPSILON and thread.last is not None
        after = thread.last if waited else task.cause
        self._let_run(
            self.machines[thread.process],
            Active(task, thread, self.now, seconds, demand, crowding, after, copies=copies),
        )

    def _asks(self, op: int) -> tuple[float, float, float]:
        """Return the seconds of a task on its thread, the cores that it uses, and how crowding slows it."""
        if op < 0:
            way, send = self.ways[-1 - op], self.sends[-1 - op]
            return way.asking * self.work.alike.get(send.source.host, 1), way.thread_cores, 1.0
        if op >= len(self.work.ops):  # the sending op, and the receiving one
            way, send = self.ways[op - len(self.work.ops)], self.sends[op - len(self.work.ops)]
            return (2 * self.costs.op_start + way.giving) * send.times, way.thread_cores, 1.0
        cost = self.op_costs[op]
        if self.on_gpu[op]:
            return cost.start, 1.0, 1.0
        wall, demand = spread(cost, self.inner[self.processes[op]], self.costs.cores)
        crowding = max(1.0, cost.crowded / cost.alone) if cost.alone > 0 else 1.0
        return cost.start + wall, demand, crowding

    def _wake(self, thread: Thread) -> None:
        """Let a thread without work look for some after the time that this takes."""
        if thread.idle and not thread.waking:
            thread.waking = True

            def looks() -> None:
                thread.waking = False
                thread.idle = False
                self.free.append(thread)

            self._at(self.now + self.costs.hand_over, looks)

    def _give(self, tasks: Sequence[Task], thread: Thread | None, process: int) -> None:
        """Put tasks into the pool of a process: the queue of the thread that gives them, or another."""
        pool = self.threads[process]
        for task in tasks:
            if thread is not None and thread.process == process:
                thread.queue.appendleft(task)
            else:
                min(pool, key=lambda each: len(each.queue)).queue.append(task)
            sleeping = next((each for each in pool if each.idle and not each.waking), None)
            if sleeping is not None:
                self._wake(sleeping)

    # --- ops ----------------------------------------------------------------------------------------------

    def _finish_tasks(self, machine: int) -> None:
        self._let_time_pass(machine)
        ended = [each for each in self.active[machine] if each.left <= _EPSILON]
        if not ended:
            ended = [min(self.active[machine], key=lambda each: each.left)]
        for each in ended:
            at = self.active[machine].index(each)
            del self.active[machine][at], self.rates[machine][at]
            if each.thread is not None:
                each.thread.busy = False
                self.free.append(each.thread)
            self._finished(each)

    def _finished(self, done: Active) -> None:
        task, thread = done.task, done.thread
        if thread is None or task is None:
            done.ended()
            return
        if task.op < 0:
            self._asked(task)
            return
        if task.op >= len(self.work.ops):
            self._sent(task, thread)
            return
        if self.on_gpu[task.op]:
            self._launched(done, thread)
            return
        bar = self._note(task, thread.number, done.start, self.now, done.began_after)
        thread.last = bar
        op = self.work.ops[task.op]
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

    def _launched(self, done: Active, thread: Thread) -> None:
        """Put an op into the stream of its GPU; what is behind it there can be started at once."""
        task = done.task
        assert task is not None
        device = self.numbers[task.op]
        free, before = self.streams.get(device, (0.0, None))
        start = max(self.now, free)
        end = start + self.op_costs[task.op].alone
        after = before if free > self.now and before is not None else done.began_after
        bar = self._note(task, -1, start, end, after)
        self.streams[device] = (end, bar)
        if self.until < inf:
            self.to_come[device] -= end - start
            self.too_long = self.too_long or end + self.to_come[device] > self.until
        self._tell(task, thread, bar, self.local[task.op])
        run, sends = task.run, self.sent[task.op]
        if not (sends or self.work.loops):
            self._one_less(run)  # nothing follows on its end
            return

        def arrived() -> None:
            process = self.processes[task.op]
            self._give([self._send(run, each, bar) for each in sends], None, process)
            self._one_less(run)

        self._at(end, arrived)

    def _complete(self, task: Task, thread: Thread, bar: int) -> None:
        """Tell the ops that wait for one that is done."""
        sends = [self._send(task.run, each, bar) for each in self.sent[task.op]]
        thread.inline.extend(sends)
        self._tell(task, thread, bar, self.local[task.op])
        self._one_less(task.run)

    def _send(self, run: Run, send: int, bar: int) -> Task:
        return Task(run, len(self.work.ops) + send, self.now, bar)

    def _tell(self, task: Task, thread: Thread, bar: int, targets: Sequence[int]) -> None:
        """Schedule the ops of the same device that are ready now, as TensorFlow's executor does."""
        kept: Task | None = None
        given: list[Task] = []
        for each in self._ready(task.run, targets, bar, None):
            if self._is_short(each.op):
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
        self._give(given, thread, thread.process)

    def _ready(self, run: Run, targets: Sequence[int], bar: int, over: int | None) -> list[Task]:
        """Count an input of each target as there; return the targets that are now ready."""
        found = []
        ops = self.work.ops
        for target in targets:
            run.waiting[target] -= 1
            if ops[target].polls and ops[self.bars[bar].op].device == ops[target].device:
                run.polled[target] = self.now
            if run.waiting[target] != 0:
                continue
            task = Task(run, target, self.now, bar, over)
            if self.work.ops[target].polls:
                self._at(self._noticed(task), lambda task=task: self._notice(task))
            else:
                found.append(task)
        return found

    def _noticed(self, task: Task) -> float:
        """Return when a process that polls notices that what it waits for is there."""
        return noticed(task.run.polled.get(task.op, self.now), self.now, self.costs.step_start)

    def _notice(self, task: Task) -> None:
        process = self.processes[task.op]
        self._begin(process, lambda: self._give([task], None, process))

    def _begin(self, process: int, then: Callable[[], None]) -> None:
        """Let a process run a graph again, which takes cores before its first op."""
        seconds, cores = self.costs.step_start, self.costs.start_cores
        copies = self.copies[process]
        self._let_run(
            self.machines[process], Active(None, None, self.now, seconds, cores, 1.0, None, then, copies)
        )

    def _is_short(self, op: int) -> bool:
        cost = self.op_costs[op]
        return cost.alone < SHORT and not self.on_gpu[op]

    def _one_less(self, run: Run) -> None:
        run.left -= 1
        if run.left == 0:
            run.done.append(self.now)
            run.rounds -= 1
            if run.rounds > 0:
                self._begin(self.processes[run.ops[0]], lambda: self._start(run))

    # --- transfers ----------------------------------------------------------------------------------------

    def _sent(self, task: Task, thread: Thread | None) -> None:
        """Bring a tensor to another device."""
        number = task.op - len(self.work.ops)
        send, link = self.sends[number], self.ways[number]
        if link.asking and send.targets and number not in task.run.asked:
            task.run.early[number] = task
            return
        taken = link.seconds(send.size)
        if taken == 0 and link.latency == 0:
            self._arrived(task, send, None, thread)
            return
        pair = (send.source, send.target)
        if not send.targets:  # it goes to processes that are not simulated, over links of their own
            cores = link.cores(send.size) / (1 if self.work.one_machine else 2)
            if cores > 0:
                machine = self.machines[self.hosts[send.source.host]]
                active = Active(task, None, self.now, taken, cores, 1.0, None, _nothing, send.times)
                self._let_run(machine, active)
            return
        if link.cores(send.size) > 0:
            self.waiting.setdefault(pair, deque()).append((task, send, link))
            if len(self.waiting[pair]) == 1:
                self._carry(pair)
            return
        start = max(self.now, self.links.get(pair, 0.0))
        self.links[pair] = start + taken
        assert task.cause is not None
        hop = len(self.hops)
        end = start + taken + link.latency
        self.hops.append(Hop(send.source, send.target, send.tensor, send.size, start, end, task.cause))
        self._at(end, lambda: self._arrived(task, send, hop, None))

    def _asked(self, task: Task) -> None:
        """Bring a tensor that has been asked for, if it is already there."""
        task.run.asked.add(-1 - task.op)
        early = task.run.early.pop(-1 - task.op, None)
        if early is not None:
            self._sent(early, None)

    def _carry(self, pair: tuple[Device, Device]) -> None:
        """Let a link carry the first tensor that waits for it, which uses the cores of both ends."""
        task, send, link = self.waiting[pair][0]
        machines = [self.machines[self.hosts[each.host]] for each in pair]
        began, taken = self.now, link.seconds(send.size)

        def ended() -> None:
            assert task.cause is not None
            hop, end = len(self.hops), self.now + link.latency
            self.hops.append(Hop(*pair, send.tensor, send.size, began, end, task.cause))
            self._at(end, lambda: self._arrived(task, send, hop, None))
            self.waiting[pair].popleft()
            if self.waiting[pair]:
                self._carry(pair)

        ends = (ended,) if machines[0] == machines[1] else (ended, _nothing)
        of_source = self.work.alike.get(pair[0].host, 1)
        at_ends = (send.times * of_source,) if len(ends) == 1 else (send.times, of_source)
        for machine, end, copies in zip(machines, ends, at_ends, strict=False):
            cores = link.cores(send.size) / len(ends)
            self._let_run(machine, Active(task, None, self.now, taken, cores, 1.0, None, end, copies))

    def _arrived(self, task: Task, send: Send, hop: int | None, thread: Thread | None) -> None:
        assert task.cause is not None
        ready = self._ready(task.run, send.targets, task.cause, hop)
        if ready:
            self._give(ready, thread, self.processes[ready[0].op])


def _nothing() -> None:
    """Do nothing: what follows on a transfer is done once, for both machines."""
