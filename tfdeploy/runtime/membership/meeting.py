"""Where tasks of a run meet that know only a place of each other: a folder that all can write, or an address.

Each process enters itself, with its machine and a free port, and waits until every task of the spec is there.
So no addresses need to be known before the processes are started, by whatever starts them. Processes go on to
say that they live while they run; an entry that nobody has renewed for a while belongs to a process that was
killed, and its task may be taken by another one.
"""

from __future__ import annotations

import atexit
import fcntl
import hmac
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from secrets import token_hex
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import IO, Protocol, TypeVar

from attrs import evolve, field, frozen

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import cluster as errors
from dsl.files.atomic import replace_file
from dsl.files.regular import system_reason
from dsl.files.typed_json import BadRecord, parse_record, to_json
from dsl.formats.cells import visible
from dsl.ir.place import split_address
from tfdeploy.runtime.membership.addresses import (
    Cluster,
    Membership,
    Task,
    bound_socket,
    family_of,
    tasks_of,
)
from tfdeploy.runtime.membership.secret import Secret

POLL, RENEW_EVERY, SAY_AFTER, TO_ANSWER = 0.2, 5.0, 5.0, 10.0
GONE_AFTER = 30.0
"""The seconds without a renewal after which a process counts as gone."""
LONGEST = 1 << 20
LOOPBACK = "127.0.0.1"
Said = TypeVar("Said")


@frozen
class Entry:
    """A process that takes part."""

    task: str
    host: str  # the name by which other machines reach its machine
    port: int
    machine: str  # what processes have in common that reach each other by the loopback address
    process: int
    spec_sha256: str
    met: bool = False  # whether it has met all others

    def is_of(self, other: Entry) -> bool:
        """Whether another entry is of the same process."""
        return (self.machine, self.process) == (other.machine, other.process)

    @property
    def is_dead(self) -> bool:
        """Whether it was a process of this machine that has ended."""
        if self.machine != this_machine():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def this_machine() -> str:
    """Return a text that two processes share if they reach each other by the loopback address (Linux)."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/net').readlink()}"


class Meeting(Protocol):
    """A place where processes meet."""

    where: str
    """The place in words."""

    met: Mapping[str, Entry]
    """Who was there when all that this process was waiting for had come; empty before that."""

    def enter(self, entry: Entry, tasks: Sequence[str]) -> Entry | None:
        """Enter a process as the first of some tasks that is free, or renew what it has entered.

        Returns:
            The entry with its task, and with the port that a process of this machine had before as this task;
            None if all of the tasks are taken.
        """

    def present(self) -> Mapping[str, Entry]:
        """Return who takes part, by task: who is there, and who has gone of those with whom others go on."""

    def leave(self, entry: Entry) -> None:
        """Note that a process has gone."""


def _free(
    entry: Entry, tasks: Sequence[str], there: Mapping[str, Entry], gone: Mapping[str, Entry]
) -> Entry | None:
    """Return an entry as the first task that is free, on the port that others may still know it by."""
    for task in tasks:
        before = there.get(task)
        if before is not None and entry.is_of(before):
            return evolve(before, met=entry.met)
        if before is None:
            last = gone.get(task)
            known = last is not None and last.machine == entry.machine and _can_have(last.port)
            return evolve(entry, task=task, port=last.port if known and last is not None else entry.port)
    return None


def _taking_part(there: Mapping[str, Entry], gone: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """Return who is there, and who has gone of those who had met, as long as one of these is there."""
    goes_on = any(each.met for each in there.values())
    return {**{task: each for task, each in gone.items() if goes_on and each.met}, **there}


class Folder:
    """A folder that all processes can write, with a file for each task.

    A folder that has other files already is refused, because files of these names may be among them.

    Args:
        path: The folder; it is made.

    Attributes:
        secret: The file of the secret of a run whose tasks meet here, unless it has one elsewhere.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.where = path, str(path.absolute())
        self.met: Mapping[str, Entry] = {}
        self.secret = path / "secret"

    @contextmanager
    def _alone(self) -> Iterator[float]:
        """Yield the time by the clock of the folder, while no other process enters or leaves."""
        try:
            with self._locked() as lock:
                os.utime(lock.fileno())
                yield os.fstat(lock.fileno()).st_mtime
        except OSError as fault:
            raise RunError(errors.no_meeting(place=self.where, reason=system_reason(fault))) from fault

    def _locked(self) -> IO[str]:
        """Return the open file that whoever enters or leaves has locked; the folder is made with it."""
        path = self._path / "lock"
        while True:
            try:
                self._path.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                if os.path.lexists(self._path):
                    raise
                continue  # the folder was there, and has been removed since
            with suppress(FileNotFoundError), ExitStack() as stack:
                others = sorted(each.name for each in self._path.iterdir() if not each.name.startswith("."))
                if others and path.name not in others:
                    reason = f"the folder has other files, such as `{visible(others[0])}`"
                    raise RunError(errors.no_meeting(place=self.where, reason=reason))
                lock = stack.enter_context(path.open("a"))
                fcntl.flock(lock, fcntl.LOCK_EX)
                # The last one to leave may have removed it, and the folder, while this process waited.
                if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                    stack.pop_all()
                    return lock

    def _file(self, task: str) -> Path:
        return self._path / f"{task.replace(':', '-')}.json"

    def _read(self, now: float) -> tuple[dict[str, Entry], dict[str, Entry]]:
        there: dict[str, Entry] = {}
        gone: dict[str, Entry] = {}
        for each in sorted(self._path.glob("*.json")):
            with suppress(OSError, BadRecord, UnicodeDecodeError):
                entry = parse_record(each.read_text(encoding="utf-8")[:LONGEST], Entry)
                lives = now - each.stat().st_mtime < GONE_AFTER and not entry.is_dead
                (there if lives else gone)[entry.task] = entry
        return there, gone

    def enter(self, entry: Entry, tasks: Sequence[str]) -> Entry | None:
        """Enter a process, as `Meeting.enter` does."""
        with self._alone() as now:
            own = _free(entry, tasks, *self._read(now))
            if own is not None:
                replace_file(self._file(own.task), to_json(own).encode() + b"\n")
        return own

    def present(self) -> Mapping[str, Entry]:
        """Return who takes part, by task, as `Meeting.present` does."""
        with self._alone() as now:
            return _taking_part(*self._read(now))

    def leave(self, entry: Entry) -> None:
        """Note that a process has gone, and remove the folder after the last one."""
        with suppress(RunError), self._alone() as now:
            there, _ = self._read(now)
            own = there.get(entry.task)
            if own is not None and entry.is_of(own):
                del there[entry.task]
                if own.met:
                    os.utime(self._file(entry.task), (0, 0))
                else:
                    self._file(entry.task).unlink()
            if not there:
                for each in self._path.glob("*-*.json"):
                    each.unlink()
                self.secret.unlink(missing_ok=True)
                (self._path / "lock").unlink()
                self._path.rmdir()


@frozen
class _Request:
    """What a process asks of the one that keeps the list: to enter it as one of some tasks, or remove it."""

    nonce: str
    entry: Entry | None = None
    tasks: tuple[str, ...] = ()
    leaves: Entry | None = None
    met: Mapping[str, Entry] = field(factory=dict)  # those whom the process has met; empty before that


@frozen
class _Reply:
    """The answer to the request with this nonce."""

    nonce: str
    entries: Mapping[str, Entry]


class Address:
    """An address at which one of the processes keeps the list of all.

    The first process of that machine does so, as long as it runs, and then another one, which knows nothing
    until the others renew their entries. Each line that is sent is signed with the secret of the run, and
    lines of others are not read.

    Args:
        address: `host:port`, which leads to the machine of one of the processes.
        secret: The secret of the run.
    """

    def __init__(self, address: str, secret: Secret) -> None:
        self.where, self._secret = address, secret
        self._at = split_address(address)
        self.met: Mapping[str, Entry] = {}
        self._entries: dict[str, tuple[Entry, float]] = {}
        self._settled = False  # whether somebody who had met the others has said who they are
        self._lock = threading.Lock()

    def _ask(self, request: _Request) -> Mapping[str, Entry]:
        """Return what the process that keeps the list answers; become that process if there is none."""
        try:
            with socket.create_connection(self._at, TO_ANSWER) as connection:
                connection.sendall(self._signed(request))
                reply = self._read(connection.makefile("rb"), _Reply)
        except ConnectionRefusedError:
            return self._answer(request) if self._listen() else {}
        except OSError as fault:
            raise RunError(errors.no_meeting(place=self.where, reason=system_reason(fault))) from fault
        if reply is None or reply.nonce != request.nonce:
            reason = "whoever answers is no task, or has another secret"
            raise RunError(errors.no_meeting(place=self.where, reason=reason))
        return reply.entries

    def _signed(self, said: _Request | _Reply) -> bytes:
        text = to_json(said).encode()
        return self._secret.signature(text).encode() + b" " + text + b"\n"

    def _read(self, stream: BufferedIOBase, record: type[Said]) -> Said | None:
        """Return what a line says; None if it is not signed with the secret, or says nothing."""
        signature, _, text = stream.readline(LONGEST).rstrip(b"\n").partition(b" ")
        if not hmac.compare_digest(signature, self._secret.signature(text).encode()):
            return None
        try:
            return parse_record(text, record)
        except BadRecord:
            return None

    def _listen(self) -> bool:
        """Listen at the address if it is one of this machine; return whether that was possible."""
        meeting = self

        class Handler(StreamRequestHandler):
            timeout = TO_ANSWER

            def handle(self) -> None:
                request = meeting._read(self.rfile, _Request)
                if request is not None:
                    self.wfile.write(meeting._signed(_Reply(request.nonce, meeting._answer(request))))

        class Server(ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            address_family = family_of(self._at[0])

            def handle_error(self, request: object, client_address: object) -> None:
                """Say nothing of those that hang up."""

        try:
            server = Server(self._at, Handler)
        except OSError:
            return False
        threading.Thread(target=server.serve_forever, daemon=True, name="meeting").start()
        return True

    def _answer(self, request: _Request) -> dict[str, Entry]:
        now = time.monotonic()
        with self._lock:
            if request.met and not self._settled:  # newcomers were entered while nobody else was known here
                self._settled = True
                self._entries = {task: (evolve(each, met=True), now) for task, each in request.met.items()}
            if request.leaves is not None:
                self._remove(request.leaves, now)
            known = {task: each for task, (each, _) in self._entries.items()}
            there = {
                task: each
                for task, (each, renewed) in self._entries.items()
                if now - renewed < GONE_AFTER and not each.is_dead
            }
            if request.entry is None:
                return {**_taking_part(there, known)}
            own = _free(request.entry, request.tasks, there, known)
            if own is None:
                return {}
            self._entries[own.task] = own, now
            return {own.task: own}

    def _remove(self, entry: Entry, now: float) -> None:
        own, _ = self._entries.get(entry.task, (None, 0.0))
        if own is not None and entry.is_of(own):
            del self._entries[own.task]
            if own.met:
                self._entries[own.task] = own, now - GONE_AFTER

    def enter(self, entry: Entry, tasks: Sequence[str]) -> Entry | None:
        """Enter a process, as `Meeting.enter` does."""
        found = self._ask(_Request(token_hex(8), entry, tuple(tasks), met=self.met))
        return next(iter(found.values()), None)

    def present(self) -> Mapping[str, Entry]:
        """Return who takes part, by task, as `Meeting.present` does."""
        return self._ask(_Request(token_hex(8)))

    def leave(self, entry: Entry) -> None:
        """Note that a process has gone."""
        with suppress(RunError):
            self._ask(_Request(token_hex(8), leaves=entry))


def _can_have(port: int) -> bool:
    try:
        with bound_socket("", port) as trial:
            trial.listen(1)
    except OSError:
        return False
    return True


def meet(
    spec: ir.Spec,
    meeting: Meeting,
    fingerprint: str,
    *,
    wanted: Sequence[Task],
    host: str | None,
    say: Callable[[str], None],
) -> tuple[Membership, tuple[Task, ...]]:
    """Enter this process and wait until all tasks of a spec have met. The entry is renewed until it ends.

    Args:
        fingerprint: The fingerprint of the spec, which must be that of all.
        wanted: The tasks that this process may be, the first free one of which it becomes.
        host: The name of this machine for others; None for the name that it gives itself.
        say: Called with a line about who is waited for.

    Returns:
        The membership, and the tasks on the machine of this process, its own among them, in the spec's order.

    Raises:
        RunError: If the place cannot be used, all wanted tasks are taken, or some are missing for too long.
    """
    tasks = tasks_of(spec)
    entry = Entry("", host or socket.gethostname(), 0, this_machine(), os.getpid(), fingerprint)
    begun, said, own = time.monotonic(), 0.0, None
    with ExitStack() as stack:
        while True:
            waited = time.monotonic() - begun
            if own is None and (renewal := _enter(meeting, entry, wanted)) is not None:
                own = renewal.own
                stack.callback(renewal.leave)
            there = meeting.present()
            if own is not None and not any(map(own.is_of, there.values())):  # others go on with another
                stack.pop_all().close()
                own = None
            if own is not None:
                _require_one_spec(there.values(), own)
            missing = [each.ref for each in tasks if each.ref not in there]
            if own is not None and renewal is not None and not missing:
                meeting.met = there
                renewal.renew()
                stack.pop_all()
                break
            if waited > spec.train.task_timeout:
                if own is None:
                    raise RunError(_no_task(meeting, wanted, there))
                raise _overdue(spec, meeting, missing, waited)
            if waited >= max(SAY_AFTER, 2 * said):
                said = waited
                what = ", ".join(missing) if own is not None else _why_none(wanted, there)
                say(f"waiting in {meeting.where} for {waited:.0f} s: {what}")
            time.sleep(POLL)
    atexit.register(renewal.leave)
    beside = tuple(each for each in tasks if there[each.ref].machine == own.machine)
    return Membership(cluster_of(spec, there), Task.parse(own.task), fingerprint, "meeting"), beside


def _enter(meeting: Meeting, entry: Entry, wanted: Sequence[Task]) -> Renewal | None:
    """Enter a process with a free port, and renew that from now on; return None if no task is free."""
    with ExitStack() as stack:
        taken = stack.enter_context(bound_socket("", 0))
        port = taken.getsockname()[1]
        own = meeting.enter(evolve(entry, port=port), [each.ref for each in wanted])
        if own is None:
            return None
        if own.port != port:
            taken.close()
            taken = bound_socket("", own.port)
        stack.pop_all()
    renewal = Renewal(meeting, own, taken)
    renewal.start()
    return renewal


def _overdue(spec: ir.Spec, meeting: Meeting, missing: Sequence[str], waited: float) -> RunError:
    span, why = spec.train.spans.get("task_timeout"), f"to meet in {meeting.where}"
    return RunError(errors.tasks_missing(span, missing=missing, why=why, waited=f"{waited:.0f} s"))


def _why_none(wanted: Sequence[Task], there: Mapping[str, Entry]) -> str:
    """Return in words why a process has no task yet."""
    if not there:
        return "nothing answers there yet"
    taken = _holders(wanted, there)
    return f"{'; '.join(taken)}" if len(taken) == 1 else "a task that is free: all have been taken"


def _no_task(meeting: Meeting, wanted: Sequence[Task], there: Mapping[str, Entry]) -> Diagnostic:
    if not there:
        reason = "nothing listens there, and it is no address of this machine"
        return errors.no_meeting(place=meeting.where, reason=reason)
    refs = [each.ref for each in wanted]
    return errors.all_taken(place=meeting.where, refs=refs, holders=_holders(wanted, there))


def _holders(wanted: Sequence[Task], there: Mapping[str, Entry]) -> list[str]:
    """Return a sentence about each of some tasks that a process has."""
    entries = [there[each.ref] for each in wanted if each.ref in there]
    return [f"{each.task} is process {each.process} on {visible(each.host)}" for each in entries]


def cluster_of(spec: ir.Spec, there: Mapping[str, Entry]) -> Cluster:
    """Return the addresses of all tasks: of the loopback device if all are on one machine."""
    together = len({each.machine for each in there.values()}) == 1
    addresses: dict[str, list[str]] = {job.name: [] for job in spec.devices.jobs}
    for task in tasks_of(spec):
        each = there[task.ref]
        addresses[task.job].append(f"{LOOPBACK if together else each.host}:{each.port}")
    return Cluster.of(addresses)


def _require_one_spec(there: Iterable[Entry], own: Entry) -> None:
    for each in there:
        if each.spec_sha256 != own.spec_sha256:
            address, ours, theirs = f"{each.host}:{each.port}", own.spec_sha256, each.spec_sha256
            raise RunError(errors.other_spec(ref=each.task, address=address, ours=ours, theirs=theirs))


@frozen
class Renewal:
    """Renews an entry, and keeps its port, until the process leaves."""

    meeting: Meeting
    own: Entry
    taken: socket.socket
    _one: threading.Lock = field(factory=threading.Lock, init=False)

    def start(self) -> None:
        """Renew the entry from now on."""
        threading.Thread(target=self._run, daemon=True, name="meeting").start()

    def _run(self) -> None:
        time.sleep(RENEW_EVERY)
        while self.renew():
            time.sleep(RENEW_EVERY)

    def renew(self) -> bool:
        """Renew the entry once; return whether the process has not left."""
        with self._one, suppress(RunError):
            if self.taken.fileno() >= 0:
                self.meeting.enter(evolve(self.own, met=bool(self.meeting.met)), [self.own.task])
        return self.taken.fileno() >= 0

    def leave(self) -> None:
        """Remove the entry, which is not renewed any more."""
        with self._one:
            self.taken.close()
            self.meeting.leave(self.own)
