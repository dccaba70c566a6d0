"""Records of `devices`, `clones`, `place` and `expect`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.ir.base import Block, Node

PARAMETER_SERVER = "ps"
"""The job whose tasks hold variables and have no clones."""

WORKER = "worker"
"""The job whose tasks have the clones, as cluster managers call it; specs may give it any other name."""


@frozen
class Job(Block):
    """`job "worker" { tasks = 4, gpu = 8 }`."""

    name: str
    tasks: int = 1  # the number of its tasks; the most, if workers come and go
    gpu: int = 0  # the number of GPUs of each task
    cpu: int = 1  # the number of CPU devices of each task
    hosts: tuple[str, ...] = ()  # the addresses of the tasks, or nothing if the tasks have no fixed addresses
    # The number of tasks with which training begins if workers come and go; None if it is fixed.
    least: int | None = None

    @property
    def span_of_tasks(self) -> str:
        """The number of tasks as it is written: `4`, or `2..8`."""
        return f"{self.tasks}" if self.least is None else f"{self.least}..{self.tasks}"


@frozen
class Devices(Block):
    """The `devices` block. The numbers of devices are those of this machine."""

    gpu: int | None = None  # the number of GPUs, or None for as many as are found
    cpu: int | None = None  # the number of CPU devices, or None for as many as are found
    jobs: tuple[Job, ...] = ()
    gpu_memory: int | None = None  # the memory of each GPU in bytes
    cpu_memory: int | None = None  # the memory of each CPU device in bytes
    link: int | None = None  # the speed of the links between devices in bytes per second
    # The hardware of the GPUs, or of the CPUs if there are none, as the table of hardware names it.
    kind: str | None = None
    soft_placement: bool = False
    allow_growth: bool = True
    visible: tuple[int, ...] | None = None  # the indices of the GPUs that are used, or None for all
    log_placement: bool = False
    intra_op_threads: int | None = None  # the number of threads of one op, or None for TensorFlow's default
    # The number of ops that run at the same time, or None for TensorFlow's default.
    inter_op_threads: int | None = None


@frozen
class Clones(Block):
    """The `clones` block."""

    count: int | None = None  # the number of clones, or None for one on each device of the rule for clones
    # The examples per step of each clone, as one number or one for each clone.
    batch: int | tuple[int, ...] | None = None
    global_batch: int | None = None  # the examples per step of all clones together, instead of `batch`


@frozen
class Selector(Node):
    """What a placement rule selects."""

    role: Literal["clones", "variables", "slots", "inputs", "updates", "ops", "summaries", "evaluation"]
    pattern: str | None = None  # a glob for their names, or None for all


@frozen
class DevicePattern(Node):
    """One pattern of devices, such as `worker[1].gpu[0..3]`."""

    kind: Literal["gpu", "cpu"]
    indices: tuple[int, ...] | None = None  # the indices of the devices, or None for all (`*`)
    job: str | None = None  # the job, or None for this machine or the workers
    tasks: tuple[int, ...] | None = None  # the indices of the tasks, or None for all


@frozen
class DeviceSet(Node):
    """Devices in the order in which they are used."""

    patterns: tuple[DevicePattern, ...]


@frozen
class Balanced(Node):
    """`balanced(devices)`: each variable, the largest first, goes where the fewest bytes are so far."""

    devices: DeviceSet


@frozen
class RoundRobin(Node):
    """`round_robin(devices)`: variables go to one device after the other, in the order of creation."""

    devices: DeviceSet


@frozen
class Sharded(Block):
    """`sharded(devices, axis = 0, min_size = 0B)`: each variable is cut into pieces, one on each device."""

    devices: DeviceSet
    axis: int = 0
    min_size: int = 0  # the bytes that a piece has at least, unless it is the whole variable


@frozen
class OverClones(Node):
    """`sharded(clones)`: each clone keeps a part of the slots of each replicated variable, and updates it."""


@frozen
class Replicated(Node):
    """`replicated`: each clone has a copy of each variable on its own device."""


@frozen
class Groups(Node):
    """`groups(devices, size = n)`: each clone owns a group of devices."""

    devices: DeviceSet
    size: int


@frozen
class GroupMember(Node):
    """`group[k]`: device k of the clone's own group."""

    index: int


Target: TypeAlias = (
    "DeviceSet | Balanced | RoundRobin | Sharded | OverClones | Replicated | Groups | GroupMember"
)


@frozen
class Rule(Node):
    """A placement rule, `selector -> target`."""

    selector: Selector
    target: Target


@frozen
class Place(Block):
    """The `place` block."""

    # The rules as written. The last one that matches applies.
    rules: tuple[Rule, ...] = ()


@frozen
class Condition(Node):
    """A condition of `expect`, such as `traffic(cpu[0], gpu[*]) <= 500MiB`."""

    function: Literal["imbalance", "memory", "traffic", "ops", "step_time", "busy"]
    arguments: tuple[DeviceSet | str, ...]
    operator: Literal["<=", "<", ">=", ">", "=="]
    value: float  # the bound: bytes, a number, or a fraction for a percentage
    text: str = field(default="", eq=False)


@frozen
class Expect(Block):
    """The `expect` block."""

    conditions: tuple[Condition, ...] = ()


# --- addresses of tasks -----------------------------------------------------------------------------------


_HIGHEST_PORT = 65535
_SIGNS = frozenset("-._")


def metrics_address(text: str) -> tuple[str, int]:
    """Return the host and port of an address for Prometheus: `HOST:PORT`, or a port of this machine alone.

    Raises:
        ValueError: If it is neither; the message says what is wrong with it.
    """
    return split_address(text if ":" in text.lstrip(":") else f"127.0.0.1:{text.lstrip(':')}")


def split_address(address: str) -> tuple[str, int]:
    """Split the address of a task into its host, without brackets, and its port.

    Raises:
        ValueError: If the address is malformed; the message says what is wrong with it.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host:
        raise ValueError("it is not of the form `host:port`")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= _HIGHEST_PORT:
        raise ValueError(f"ports are 1 to {_HIGHEST_PORT}")
    if host.startswith("[") and host.endswith("]"):
        if not _is_v6(host[1:-1]):
            raise ValueError("what stands in brackets is no IPv6 address")
        return host[1:-1], int(port)
    if ":" in host:
        raise ValueError("an IPv6 address stands in brackets, as in `[::1]:2222`")
    if not all(sign.isalnum() or sign in _SIGNS for sign in host):
        raise ValueError("names of hosts have letters, digits, dots and hyphens")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("each part of a host's name, between dots, has 1 to 63 characters") from None
    return host, int(port)


def _is_v6(host: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address  # only if there is one

    try:
        IPv6Address(host)
    except AddressValueError:
        return False
    return True
