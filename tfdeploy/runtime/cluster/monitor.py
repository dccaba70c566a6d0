"""Which tasks of a cluster are running: before training, while it goes on, and for `tfdeploy status`.

While it waits, each missing task is reported with its host, the reason, and how long it has been missing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from attrs import frozen

from compiler.compatibility import changing_job
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError, SpecError
from dsl.errors import cluster as errors
from dsl.errors.wording import quoted
from dsl.files.typed_json import BadRecord, Count, read_record, to_json
from dsl.ir.place import split_address
from dsl.source import Span
from tfdeploy.own_process import cleanup
from tfdeploy.runtime.cluster.health import PUBLISH_EVERY, Health
from tfdeploy.runtime.cluster.identity import (
    CLIENT_HEALTH,
    DISPUTE,
    HEALTH,
    SPEC,
    Answer,
    Dispute,
    Identity,
    NoAnswer,
    ask,
    probe,
    read_text,
    versions,
    write_text,
)
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.membership.membership import compared_text, find_membership, who_met
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.show.reporting import duration
from tfdeploy.runtime.stop import alongside
from tfdeploy.runtime.watchdog import HealthMonitor

PATIENCE = 2.0
TO_ANSWER = 3.0
"""The seconds in which a task has to answer: to a run, and to `tfdeploy status`."""

SAY_AFTER = 5.0
GROWTH = 2  # a report is repeated when the wait is this many times as long
LOOK_EVERY = 1.0
HOPELESS_AFTER = 6.0
LOST = {"unknown host", "unreachable", "foreign"}
AT_ONCE = 32
MOST_NAMED = 4
POLL = 0.25
CLIENT = "client"
CLIENT_IS_GONE = 30.0  # seconds after which it is asked whether a client still publishes how it does


@frozen
class MissingTask:
    """A task that does not answer."""

    task: Task
    address: str
    reason: str
    since: float  # when it last answered, or when training last made progress (`time.monotonic()`)
    kind: str = "silent"  # the kind of failure; see `NoAnswer`

    @property
    def seconds(self) -> float:
        """For how long it has been missing."""
        return time.monotonic() - self.since

    @property
    def words(self) -> str:
        """The task in words: `worker:1 at 10.0.0.2:2222 for 12.0 s: nothing listens there`."""
        return f"{self.task.ref} at {self.address} for {duration(self.seconds)}: {self.reason}"


class TaskMonitor(HealthMonitor):
    """Monitors tasks of a cluster. Tasks are asked in parallel, so that asking takes as long as the slowest.

    Args:
        needed: The tasks to monitor. The task of this process itself is left out.
        say: Called with a sentence for each task that is missing or is back.
        timeout: The seconds that a task may be missing.
        spec: The spec into which messages point; None for messages without places.

    Attributes:
        timed_out: The error that has ended the waiting during training; None if there is none.
        check: Called while it waits; it may raise an exception.
    """

    timed_out: RunError | None = None
    absent: tuple[MissingTask, ...] = ()

    def __init__(
        self,
        membership: Membership,
        needed: Sequence[Task],
        say: Callable[[str], None],
        timeout: float,
        spec: ir.Spec | None = None,
    ) -> None:
        self.membership = membership
        self.needed = tuple(each for each in needed if each != membership.task)
        self.say = say
        self.timeout = timeout
        self.spec = spec
        self.check: Callable[[], None] = lambda: None
        self._since: dict[Task, float] = {}
        self._seen: dict[Task, str] = {}  # the incarnation of each task that has answered last
        self._known: dict[Task, str] = {}  # the same, when all were there
        self._unnamed: dict[Task, float] = {}
        self._answered: dict[Task, float] = {}
        self._reported: set[Task] = set()
        self._reported_after = 0.0  # for how long someone had been missing when that was said
        self._progress = self._last_well = time.monotonic()

    # --- asking -------------------------------------------------------------------------------------------

    def missing(self, patience: float = PATIENCE) -> tuple[MissingTask, ...]:
        """Ask all tasks now, and return those that do not answer within `patience` seconds.

        Raises:
            RunError: If waiting cannot help: another task or program answers at an address, a task runs
                another spec or version, a host has never been reached, or the launcher has given up a task.
        """
        launch_failure = self.membership.launch_failure()
        if launch_failure is not None:
            raise RunError(launch_failure)
        if not self.needed:
            return ()  # and `absent` stays empty
        with ThreadPoolExecutor(min(AT_ONCE, len(self.needed)), "look") as pool:
            found = list(pool.map(lambda each: self._look(each, patience), self.needed))
        self.absent = tuple(each for each in found if each is not None)
        return self.absent

    def _look(self, task: Task, patience: float) -> MissingTask | None:
        address = self.membership.cluster.address(task)
        found = ask(address, patience)
        if isinstance(found, Answer) and found.task == task and found.identity is None:
            found = self._unnamed_server(task)
        if isinstance(found, Answer):
            difference = self._difference(task, found)
            wrong = self._wrong(task, address, found, difference)
            if wrong is not None:
                self._tell_others(found, difference)
                raise RunError(wrong)
            self._answered[task] = time.monotonic()
            self._seen[task] = found.identity.incarnation if found.identity is not None else ""
            self._since.pop(task, None)
            self._unnamed.pop(task, None)
            return None
        well = max(self._last_well, self._answered.get(task, 0.0))
        since = self._since.setdefault(task, well)
        missing = MissingTask(task, address, found.words, since, found.kind)
        hopeless = self._failure_for_good(missing)
        if hopeless is not None:
            raise RunError(hopeless)
        return missing

    def _unnamed_server(self, task: Task) -> NoAnswer:
        """Return why a server without an identity does not count: it may be starting."""
        since = self._unnamed.setdefault(task, time.monotonic())
        if time.monotonic() - since > HOPELESS_AFTER:
            found = "a TensorFlow server that tfdeploy has not started"
            raise RunError(self._wrong_task(task, found))
        return NoAnswer("silent", "it is starting")

    def _wrong(self, task: Task, address: str, found: Answer, difference: str) -> Diagnostic | None:
        """Return the diagnostic about a server that is not the task that is wanted; None if it is."""
        if found.task != task:
            return self._wrong_task(task, f"`{found.task.ref}`")
        identity = found.identity
        assert identity is not None
        tfdeploy, tensorflow = versions()
        for what, ours, theirs in (
            ("TensorFlow", tensorflow, identity.tensorflow),
            ("tfdeploy", tfdeploy, identity.tfdeploy),
        ):
            if ours != theirs:
                return errors.other_version(
                    ref=task.ref, address=address, what=what, ours=ours, theirs=theirs
                )
        secret = self.membership.secret
        if secret is not None and identity.secret != secret.public_digest:
            return errors.other_secret(ref=task.ref, address=address)
        if identity.spec_sha256 != self.membership.spec_sha256:
            return errors.other_spec(
                ref=task.ref,
                address=address,
                difference=difference,
                ours=self.membership.spec_sha256,
                theirs=identity.spec_sha256,
            )
        return None

    def _difference(self, task: Task, found: Answer) -> str:
        """Return in words where a task's spec first differs from this process's; empty if it is not known."""
        same = found.identity is None or found.identity.spec_sha256 == self.membership.spec_sha256
        if self.spec is None or same:
            return ""
        theirs = read_text(self.membership.cluster.address(task), PATIENCE, SPEC) or ""
        pairs = zip(compared_text(self.spec).splitlines(), theirs.splitlines(), strict=False)
        here, there = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        own = CLIENT if self.membership.task is None else self.membership.task.ref
        return f"`{own}` has {quoted(here)} where `{task.ref}` has {quoted(there)}" if here else ""

    def _tell_others(self, found: Answer, difference: str) -> None:
        """Tell all tasks that answer which two do not fit: this process ends, and they would wait for it.

        Workers that come and go are not told, because they go on without it.
        """
        membership = self.membership
        if membership.task is None or membership.present is not None or found.identity is None:
            return
        text = Dispute((Identity.of(membership), found.identity), difference).to_json()

        def tell(task: Task) -> None:
            address = membership.cluster.address(task)
            if probe(address, PATIENCE) is None:
                write_text(address, PATIENCE, DISPUTE, text)

        with ThreadPoolExecutor(AT_ONCE, "tell") as pool:
            list(pool.map(tell, membership.others))

    def _raise_if_told(self) -> None:
        """Raise RunError if a missing task does not fit to this one, as one that has ended has told it."""
        task, cluster = self.membership.task, self.membership.cluster
        text = None if task is None else read_text(cluster.address(task), PATIENCE, DISPUTE)
        dispute = Dispute.read(text) if text else None
        if dispute is None:
            return
        for each in dispute.tasks:
            if any(absent.task == each.task for absent in self.absent):
                found = Answer(each.task, each)
                wrong = self._wrong(each.task, cluster.address(each.task), found, dispute.difference)
                if wrong is not None:
                    raise RunError(wrong)

    def _failure_for_good(self, missing: MissingTask) -> Diagnostic | None:
        """Return the diagnostic if waiting cannot help: something else answers, or a host was never reached.

        A task that has answered before may come back, and names from TF_CONFIG may become known only when a
        machine has been found for them.
        """
        task = missing.task
        if missing.kind not in LOST or missing.seconds < HOPELESS_AFTER or task in self._answered:
            return None
        if missing.kind == "foreign":
            return self._wrong_task(task, "something that is no TensorFlow server")
        if self.membership.given_by != "spec":
            return None
        span = self._host_span(task)
        return errors.unreachable(span, ref=task.ref, address=missing.address, reason=missing.reason)

    def _wrong_task(self, task: Task, found: str) -> Diagnostic:
        address = self.membership.cluster.address(task)
        return errors.wrong_task(self._host_span(task), ref=task.ref, address=address, found=found)

    def _host_span(self, task: Task) -> Span | None:
        """Return the place of a task's address in the spec."""
        jobs = self.spec.devices.jobs if self.spec is not None else ()
        return next((each.span_of("hosts") for each in jobs if each.name == task.job and each.hosts), None)

    # --- waiting ------------------------------------------------------------------------------------------

    def require(self, why: str) -> None:
        """Wait until every needed task answers.

        Missing tasks are reported after some seconds, and again whenever the wait has doubled.

        Raises:
            RunError: If waiting cannot help, or a task has been missing for `timeout` seconds.
            Exception: What `check` raises.
        """
        self._last_well = time.monotonic()
        while found := self.missing():
            self._raise_if_told()
            self._raise_if_too_long(found, why)
            if _longest(found) >= SAY_AFTER and self._is_news(found):
                self._report_missing(found, why)
            time.sleep(POLL)
            self.check()
        self._report_returned(())
        self._known = dict(self._seen)
        self.progress()

    def lost(self) -> bool:
        """Ask the tasks whether one is missing, or was started again since all of them answered."""
        try:
            return bool(self.missing()) or self._seen != self._known
        except RunError:  # which is raised again when the task is waited for
            return True

    def late(self) -> list[tuple[str, None]]:
        """Ask the tasks that answer what they do; return a sentence about each that makes no progress."""
        here = [each for each in self.needed if each not in {absent.task for absent in self.absent}]
        if not here:
            return []
        with ThreadPoolExecutor(min(AT_ONCE, len(here)), "look") as pool:
            found = list(pool.map(read_health, map(self.membership.cluster.address, here)))
        return [
            (f"{task.ref}: {each.words}", None)
            for task, each in zip(here, found, strict=True)
            if each is not None and each.late
        ]

    def _raise_if_too_long(self, found: Sequence[MissingTask], why: str) -> None:
        late = [each for each in found if each.seconds >= self.timeout]
        if late:
            span = self.spec.train.spans.get("task_timeout") if self.spec is not None else None
            words = [each.words for each in late]
            raise RunError(errors.tasks_missing(span, missing=words, why=why, waited=duration(self.timeout)))

    def _report_missing(self, found: Sequence[MissingTask], why: str) -> None:
        """Report the missing tasks, with a line for each of the first few, and those that are back."""
        self._report_returned(found)
        self._reported_after = _longest(found)
        for each in found[:MOST_NAMED]:
            self.say(f"waiting {why}: {each.words}")
        if len(found) > MOST_NAMED:
            self.say(f"waiting {why}: {len(found) - MOST_NAMED} more tasks")
        self._reported.update(each.task for each in found)

    def _is_news(self, found: Sequence[MissingTask]) -> bool:
        """Whether a missing task was not reported yet, or the wait is much longer than at the last report."""
        return _longest(found) >= GROWTH * self._reported_after or any(
            each.task not in self._reported for each in found
        )

    def _report_returned(self, found: Sequence[MissingTask]) -> None:
        """Report which of the tasks that were reported missing are back."""
        back = self._reported - {each.task for each in found}
        for task in sorted(back):
            self.say(f"{task.ref} at {self.membership.cluster.address(task)} is back")
        self._reported -= back

    # --- monitoring -------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Note that training makes progress. As long as this is called often enough, no task is asked."""
        self.absent = ()
        self._progress = self._last_well = time.monotonic()

    def during(self, doing: str) -> AbstractContextManager[None]:
        """Monitor the tasks from a thread during a block that may have to wait for them.

        If `progress()` has not been called for some seconds, missing tasks are reported. An error that
        waiting cannot help, or a task that is missing for too long, is stored in `timed_out`.

        Args:
            doing: What the block waits for, such as `for step 7`.
        """
        self.timed_out = None
        self.progress()
        return alongside(partial(self._look_on, doing), "watch")

    def _look_on(self, doing: str, over: threading.Event) -> None:
        looked = 0.0
        while not over.wait(POLL):
            now = time.monotonic()
            if now - self._progress < SAY_AFTER and not self._reported:
                continue
            if now - looked < (LOOK_EVERY if self._reported else SAY_AFTER):
                continue
            try:
                found = self.missing()
                self._raise_if_too_long(found, doing)
            except RunError as error:
                self.timed_out = error
                continue
            finally:
                looked = time.monotonic()
            if over.is_set():
                return
            if not found:
                self._report_returned(())
            elif self._is_news(found):
                self._report_missing(found, doing)


def lags(found: Sequence[TaskStatus]) -> dict[str, float]:
    """Return by how many steps each task that trains is behind the first of them.

    If workers update independently of each other, their own updates count, as they do for `staleness`.
    """
    healths = {each.name: each.health for each in found if each.health is not None}
    for which in ("updates", "step"):
        made = {name: getattr(each, which) for name, each in healths.items()}
        made = {name: number for name, number in made.items() if number is not None}
        if made:
            return {name: float(max(made.values()) - number) for name, number in made.items()}
    return {}


def read_health(address: str, name: str = HEALTH) -> Health | None:
    """Return what a process has published at a server of how it does; None if there is no answer."""
    text = read_text(address, TO_ANSWER, name)
    return None if text is None else Health.read(text)


def _longest(found: Sequence[MissingTask]) -> float:
    """Return for how many seconds the task has been missing that has been missing longest."""
    return max(each.seconds for each in found)


@frozen
class TaskStatus:
    """The status of a task."""

    name: str  # the task, such as `worker:1`, or `client`
    address: str  # its `host:port`; empty for a client
    well: bool  # whether it is running, and runs the same spec
    words: str
    health: Health | None = None


@frozen
class ClusterRecord:
    """The record of `cluster.json`.

    Attributes:
        process: The process that has started the tasks.
        jobs: The `host:port` of each task of each job.

    Raises:
        ValueError: If there are no tasks, or a name or an address is not valid.
    """

    process: Count
    spec_sha256: str
    jobs: Mapping[str, tuple[str, ...]]

    def __attrs_post_init__(self) -> None:
        if not any(self.jobs.values()):
            raise ValueError("a cluster without tasks")
        for job, addresses in self.jobs.items():
            for index, address in enumerate(addresses):
                Task.parse(f"{job}:{index}")
                split_address(address)


@contextmanager
def cluster_record(directory: RunDirectory, membership: Membership | None) -> Iterator[None]:
    """Keep the addresses of tasks that a launcher has started in the run directory, during the block.

    The process must have the lock of the directory, so that a second run does not replace the file.

    Args:
        membership: The membership of this process. Without a launcher in it, or without a cluster, nothing is
            kept.
    """
    if membership is None or membership.launcher is None:
        yield
        return
    found = ClusterRecord(membership.launcher, membership.spec_sha256, membership.cluster.jobs)
    write_atomically(directory.cluster, to_json(found) + "\n")
    with cleanup(lambda: directory.cluster.unlink(missing_ok=True)):
        yield


def _read_record(spec: ir.Spec) -> Membership | None:
    """Return the cluster that a launcher has started for the spec; None if there is none."""
    try:
        found = read_record(RunDirectory.of(spec).cluster, ClusterRecord)
        os.kill(found.process, 0)
    except (OSError, BadRecord, OverflowError):
        return None  # there is no file, or it is damaged, or a launcher that was killed has left it
    return Membership(Cluster(found.jobs), None, found.spec_sha256)


def is_launched(spec: ir.Spec) -> bool:
    """Whether a launcher runs the tasks of the spec's cluster on this machine."""
    return _read_record(spec) is not None


def running_cluster(spec: ir.Spec, environment: Mapping[str, str]) -> Membership:
    """Return the cluster of a spec whose tasks are running; raises SpecError if no addresses are known."""
    known = find_membership(spec, environment) or _read_record(spec) or who_met(spec)
    if known is None:
        raise SpecError([errors.not_running(spec.devices.span)])
    return known


def own_status(membership: Membership) -> TaskStatus:
    """Return whether the task of this process answers, without its identity, for which TensorFlow is needed.

    Raises:
        RunError: Nothing says which task that is.
    """
    if membership.task is None:
        raise RunError(errors.bad_tf_config(reason="names no task of this process"))
    address = membership.cluster.address(membership.task)
    silence = probe(address, TO_ANSWER)
    return TaskStatus(
        membership.task.ref, address, silence is None, "answers" if silence is None else silence.words
    )


def cluster_status(membership: Membership) -> list[TaskStatus]:
    """Return the status of every task of a cluster, in order, and that of its client if there is one."""
    tasks, chief = membership.cluster.tasks, membership.cluster.address(membership.cluster.chief)
    with ThreadPoolExecutor(min(AT_ONCE, len(tasks) + 1), "look") as pool:
        client = pool.submit(_health_of_client, chief)
        found = list(pool.map(partial(_status, membership), tasks))
    health = client.result()
    if health is None:
        return found
    return [*found, TaskStatus(CLIENT, "", True, "trains on all tasks", health)]


def _health_of_client(chief: str) -> Health | None:
    """Return how the client does, or None if it is gone; its machine may have another time than this one."""
    found = read_health(chief, CLIENT_HEALTH)
    if found is None or abs(time.time() - found.at) <= CLIENT_IS_GONE:
        return found
    time.sleep(2 * PUBLISH_EVERY)
    again = read_health(chief, CLIENT_HEALTH)
    return None if again == found else again


def are_enough(spec: ir.Spec, found: Sequence[TaskStatus]) -> bool:
    """Whether all tasks of a cluster are well; of a job whose tasks come and go, the fewest that train."""
    job = changing_job(spec)
    if job is None:
        return all(each.well for each in found)
    own = [each.well for each in found if each.name.startswith(f"{job.name}:")]
    others = (each.well for each in found if not each.name.startswith(f"{job.name}:"))
    return all(others) and sum(own) >= (job.least or 0)


def _status(membership: Membership, task: Task) -> TaskStatus:
    address = membership.cluster.address(task)
    well, words = _found(membership, task, ask(address, TO_ANSWER))
    health = read_health(address) if well else None
    return TaskStatus(task.ref, address, well, words, health)


def _found(membership: Membership, task: Task, answer: Answer | NoAnswer) -> tuple[bool, str]:
    """Return whether a task answers with the same spec, and what it does instead or for how long."""
    if isinstance(answer, NoAnswer):
        return False, answer.words
    if answer.task != task:
        return False, f"{answer.task.ref} answers there"
    identity = answer.identity
    if identity is None:
        return False, "starting, or no server of tfdeploy"
    up = duration(max(0.0, time.time() - identity.started))
    same = identity.spec_sha256 == membership.spec_sha256
    other = "" if same else ", with another spec"
    return same, f"up for {up}, process {identity.process} on {identity.host}{other}"
