"""The server of this process's own task, which listens at the address of the task alone."""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, Self

from compiler.process import task_threads
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError, SpecError
from dsl.errors import cluster as errors
from dsl.ir.place import split_address
from tfdeploy.runtime.cluster.binding import BindingError, listening_addresses, listening_at
from tfdeploy.runtime.cluster.health import SelfMeasurement, publishing
from tfdeploy.runtime.cluster.identity import Answer, Identity, ServerIdentity, ask, probe
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task, bound_socket
from tfdeploy.runtime.membership.membership import compared_text, require_server
from tfdeploy.runtime.membership.ranks import rank_of
from tfdeploy.runtime.start_tensorflow import LOOPBACK, start_tensorflow
from tfdeploy.runtime.stop import StopSignals

PATIENCE = 2.0


class Server:
    """A running server. TensorFlow cannot end a server, so its port is taken until the process ends.

    Attributes:
        host: The IP address at which it listens; None for every address.
    """

    def __init__(self, server: Any, published: ServerIdentity, host: str | None, port: int) -> None:
        self._server = server
        self.published = published
        self.target: str = server.target
        self.host = host
        self.where = f"{_bracketed(host)}:{port}" if host is not None else f"port {port} of every address"

    def announce(self, say: Callable[[str], None], warn: Callable[[Diagnostic], None]) -> None:
        """Report where the server listens, and warn if other machines can reach it."""
        ref = self.published.identity.task.ref
        if self.host is None or not ipaddress.ip_address(self.host).is_loopback:
            warn(errors.open_to_network(ref=ref, where=self.where))
        say(f"{ref} listens at {self.where}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.published.close()


def serve_task(spec: ir.Spec, membership: Membership) -> Server:
    """Start the server of this process's task from the spec alone.

    Raises:
        RunError: If it cannot listen at its address.
        SpecError: If this machine lacks GPUs that the spec gives the task.
    """
    import tensorflow as tf

    from tfdeploy.runtime.session.faults import reason_of

    task, cluster = membership.own, membership.cluster
    host, port = listening_host(membership), split_address(cluster.address(task))[1]
    _require_free(membership, host, port)
    definition = tf.train.ServerDef(
        cluster=cluster.to_tensorflow().as_cluster_def(),
        job_name=task.job,
        task_index=task.index,
        protocol="grpc",
        default_session_config=server_config(spec, task, cluster),
    )
    try:
        server = _listening(definition, host, port)
    except (tf.errors.OpError, BindingError) as fault:
        raise RunError(
            errors.cannot_listen(ref=task.ref, address=cluster.address(task), reason=reason_of(fault))
        ) from fault
    server.start()
    published = ServerIdentity(server.target, Identity.of(membership), membership.secret, compared_text(spec))
    _require_gpus(spec, membership, published.devices)
    return Server(server, published, host, port)


def _listening(definition: Any, host: str | None, port: int) -> Any:
    """Return a server that listens and does not answer yet, at `host` alone if there is one."""
    import tensorflow as tf

    if host is None:
        return tf.distribute.Server(definition, start=False)
    with listening_at(host, port):
        server = tf.distribute.Server(definition, start=False)
    found = listening_addresses(port)
    if found != {host}:
        raise BindingError(
            f"it would listen at {' and '.join(sorted(found)) or 'no address'}, not at {host} alone"
        )
    return server


def loopback_server(config: Any) -> Any:
    """Return a running TensorFlow server of this process alone, on a free port of the loopback address."""
    import tensorflow as tf

    with listening_at(LOOPBACK, 0):
        return tf.distribute.Server({"localhost": [f"{LOOPBACK}:0"]}, job_name="localhost", config=config)


def server_config(spec: ir.Spec, task: Task, cluster: Cluster) -> Any:
    """Return the ConfigProto of a server: the devices of its job, and the session options of the spec.

    Tasks on one machine share its cores. A thread that looks for work for a while before it sleeps takes a
    core from another task then, so threads sleep at once.
    """
    import tensorflow as tf

    devices, beside = spec.devices, cluster.beside(task)
    job = next(each for each in devices.jobs if each.name == task.job)
    config = tf.compat.v1.ConfigProto(
        device_count={"CPU": max(job.cpu, 1), "GPU": job.gpu},
        allow_soft_placement=devices.soft_placement,
        log_device_placement=devices.log_placement,
        intra_op_parallelism_threads=task_threads(devices, job, [each.job for each in beside]),
        inter_op_parallelism_threads=devices.inter_op_threads or 0,
    )
    config.experimental.disable_thread_spinning = len(beside) > 1
    config.gpu_options.allow_growth = devices.allow_growth
    if devices.visible is not None:
        config.gpu_options.visible_device_list = ",".join(str(each) for each in devices.visible)
    return config


def _require_gpus(spec: ir.Spec, membership: Membership, found: tuple[str, ...]) -> None:
    """Raise SpecError if this machine does not have the GPUs that the spec gives the task."""
    from dsl.errors.plan import device_not_present

    task = membership.own
    job = next(each for each in spec.devices.jobs if each.name == task.job)
    there = sum("device:GPU:" in each for each in found)
    if there < job.gpu and not spec.devices.soft_placement:
        name = f"{task.job}[{task.index}]"
        refs = [f"{name}.cpu[{each}]" for each in range(max(job.cpu, 1))]
        refs += [f"{name}.gpu[{each}]" for each in range(there)]
        raise SpecError([device_not_present(job.span_of("gpu"), ref=f"{name}.gpu[{there}]", found=refs)])


# --- where to listen --------------------------------------------------------------------------------------


def listening_host(membership: Membership) -> str | None:
    """Return the IP address at which this process's server is to listen.

    Without hosts that is the loopback address. If the name of the host leads to an address of this machine,
    it is that address. If it leads to none (a forwarded port, a virtual address), the server must listen at
    all addresses, which the user has to permit.

    Raises:
        RunError: If listening at every address is necessary and not permitted.
    """
    if membership.given_by == "launch":
        return LOOPBACK
    task = membership.own
    address = membership.cluster.address(task)
    host, _ = split_address(address)
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (socket.gaierror, UnicodeError):
        found = set()
    own = sorted(str(each) for each in found if _is_own(str(each)))
    loopback = [each for each in own if ipaddress.ip_address(each).is_loopback]
    if loopback:
        return LOOPBACK if LOOPBACK in loopback else loopback[0]
    if not own and not membership.listen_everywhere:
        raise RunError(
            errors.no_own_address(ref=task.ref, address=address, host=host, leads_elsewhere=bool(found))
        )
    return own[0] if own else None


def _is_own(host: str) -> bool:
    try:
        bound_socket(host, 0).close()
    except OSError:
        return False
    return True


def _require_free(membership: Membership, host: str | None, port: int) -> None:
    """Raise RunError if the port is taken, with who has it if that is a task of a cluster."""
    task = membership.own
    try:
        with bound_socket(host or "", port) as trial:
            trial.listen(1)
    except OSError as error:
        reason, advice = (error.strerror or "it cannot be had").lower(), None
        if error.errno == errno.EADDRINUSE:
            there = ask(f"{_bracketed(host or LOOPBACK)}:{port}", PATIENCE)
            holder = f"`{there.task.ref}` of a cluster" if isinstance(there, Answer) else "another program"
            reason, advice = f"{holder} has the port", "give every task a port of its own, or end what has it"
        at = f"{_bracketed(host)}:{port}" if host is not None else f"port {port}"
        raise RunError(
            errors.cannot_listen(ref=task.ref, address=at, reason=reason, advice=advice)
        ) from error


def _bracketed(host: str | None) -> str:
    return f"[{host}]" if host is not None and ":" in host else str(host)


# The C library decides by what was freed before how much of what is free it returns to the system. A process
# that gets whole weights or gradients in each step may so touch new pages for them in each step, or never,
# which differs from run to run by up to a third of the time. So what is free stays for the next step, unless
# a server holds pieces of variables: that one returns memory as soon as it has no use for it.
#
# TensorFlow's allocator asks for regions twice as large as the last one, keeps what it has ever used, and
# keeps lists of eight bytes for every 256 bytes of a region, touched or not. The allocator of the C library
# keeps the buffers of the network in the same way, in a heap for each thread. Beside a large piece that is
# a tenth of its size. Without both, a large buffer is mapped for its use alone, which costs the time of
# touching its pages anew. Rows of a batch are smaller: their pages stay, because every step needs as many
# again.

SYSTEM_ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
"""The variable of the environment by which TensorFlow leaves tensors of CPUs to the C library."""

MAPPED_ALONE = 2 << 20
"""The bytes from which on a buffer is mapped alone: more than the rows that a step reads or changes."""

KEPT_FREE = 8 << 20
"""The bytes that stay free at the end of a heap, for the buffers of the next step."""

LARGEST_KEPT, KEPT_WHOLE = 32 << 20, 256 << 20
"""The same where whole weights or gradients come: the first is the most that the C library allows."""

_MAPPING, _TRIM = ("MALLOC_MMAP_THRESHOLD_", -3), ("MALLOC_TRIM_THRESHOLD_", -1)  # with the option of mallopt


def holds_pieces(spec: ir.Spec) -> bool:
    """Whether a rule cuts variables of a spec into pieces."""
    return any(isinstance(rule.target, ir.Sharded) for rule in spec.place.rules)


def return_memory_at_once() -> None:
    """Make this process return large buffers when they are freed; call it before TensorFlow is imported.

    A setting of the user stays as it is. A C library that knows no such setting is left alone.
    """
    os.environ.setdefault(SYSTEM_ALLOCATOR, "true")
    _keep(MAPPED_ALONE, KEPT_FREE)


def keep_buffers() -> None:
    """Make this process keep the buffers of a step for the next one, unless the user has set how many."""
    _keep(LARGEST_KEPT, KEPT_WHOLE)


def _keep(mapped: int, free: int) -> None:
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    for (variable, option), value in ((_MAPPING, mapped), (_TRIM, free)):
        if set_option is not None and variable not in os.environ:
            set_option(option, value)


POLL = 0.1
ASK_EVERY = 0.5
OUTLASTING = 60.0
"""The most seconds for which a server outlasts a SIGTERM that a manager may have sent to all tasks at once.

The chief writes a checkpoint then, for which it may need the server, and ends.
"""


def serve(
    spec: ir.Spec,
    membership: Membership,
    say: Callable[[str], None],
    warn: Callable[[Diagnostic], None],
    *,
    verbose: bool = False,
) -> None:
    """Run the server of a task, and return when the client or the chief of the run has shut it down.

    Raises:
        SpecError: If the task is not run by `tfdeploy serve`, or lacks GPUs.
        RunError: If the server cannot be started.
        Interrupted: If SIGINT has ended it.
        Terminated: If SIGTERM has ended it.
    """
    task = membership.own
    require_server(spec, task)
    with StopSignals(own_process=True) as stop:
        (return_memory_at_once if holds_pieces(spec) else keep_buffers)()
        start_tensorflow(verbose=verbose)

        stop.check()
        with (
            serve_task(spec, membership) as server,
            publishing(SelfMeasurement(), server.published.publish_health),
        ):
            server.announce(say, warn)
            _wait(server, stop, warn, membership.cluster.address(membership.cluster.chief))
        ended = f"by {stop.received.name}" if stop.received is not None else "with the run"
        say(f"{task.ref} ended {ended}")
        stop.check()


def _wait(server: Server, stop: StopSignals, warn: Callable[[Diagnostic], None], chief: str) -> None:
    ask_at, warned = 0.0, False
    while stop.received is None or _is_needed(stop, chief):
        if time.monotonic() >= ask_at:
            if server.published.finished:
                return
            if server.published.got_invalid_token and not warned:
                warned = True
                warn(errors.disbelieved(ref=server.published.identity.task.ref))
            ask_at = time.monotonic() + ASK_EVERY
        time.sleep(POLL)


def _is_needed(stop: StopSignals, chief: str) -> bool:
    """Whether a server has to outlast the signal that it has got, because the chief has got it as well."""
    assert stop.arrived is not None
    number, at = stop.arrived
    may = number == signal.SIGTERM and rank_of(os.environ) is not None
    return may and time.monotonic() - at < OUTLASTING and probe(chief, PATIENCE) is None
