"""Records of `devices`, `clones`, `place` and `expect`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.ir.base import Block, Node


@frozen
class Job(Block):
    """`job "worker" { tasks = 4, gpu = 8 }`. `hosts` is empty where the tasks have no fixed addresses."""

    name: str
    tasks: int = 1
    gpu: int = 0
    cpu: int = 1
    hosts: tuple[str, ...] = ()


@frozen
class Devices(Block):
    """What there is. `gpu` and `cpu` count this machine's; None means as many as are found."""

    gpu: int | None = None
    cpu: int | None = None
    jobs: tuple[Job, ...] = ()
    gpu_memory: int | None = None
    cpu_memory: int | None = None
    link: int | None = None
    soft_placement: bool = False
    allow_growth: bool = True
    visible: tuple[int, ...] | None = None
    log_placement: bool = False
    intra_op_threads: int | None = None
    inter_op_threads: int | None = None


@frozen
class Clones(Block):
    """How many towers, and their examples per step: `batch` (one, or one per clone) or `global_batch`."""

    count: int | None = None
    batch: int | tuple[int, ...] | None = None
    global_batch: int | None = None


@frozen
class Selector(Node):
    """What a rule takes; `pattern` is a glob where the selector has one."""

    role: Literal["clones", "variables", "slots", "inputs", "updates", "ops", "summaries", "evaluation"]
    pattern: str | None = None


@frozen
class DevicePattern(Node):
    """`worker[1].gpu[0..3]`; an index set of None is `*`, a job of None this machine or every worker."""

    kind: Literal["gpu", "cpu"]
    indices: tuple[int, ...] | None = None
    job: str | None = None
    tasks: tuple[int, ...] | None = None


@frozen
class DeviceSet(Node):
    """Devices in the order in which they are used."""

    patterns: tuple[DevicePattern, ...]


@frozen
class Balanced(Node):
    """Largest variable first to the least loaded device."""

    devices: DeviceSet


@frozen
class RoundRobin(Node):
    """Variables in creation order, one device after the other."""

    devices: DeviceSet


@frozen
class Replicated(Node):
    """A copy of each variable on the device of every clone."""


@frozen
class Groups(Node):
    """Each clone owns `size` devices of the set."""

    devices: DeviceSet
    size: int


@frozen
class GroupMember(Node):
    """`group[k]`: device k of the clone's own group."""

    index: int


Target: TypeAlias = "DeviceSet | Balanced | RoundRobin | Replicated | Groups | GroupMember"


@frozen
class Rule(Node):
    """`selector -> target`."""

    selector: Selector
    target: Target


@frozen
class Place(Block):
    """The rules in the order in which they were written; the last one that matches wins."""

    rules: tuple[Rule, ...] = ()


@frozen
class Condition(Node):
    """`traffic(cpu[0], gpu[*]) <= 500MiB`; bytes, or a fraction for a percentage."""

    function: Literal["imbalance", "memory", "traffic", "ops"]
    arguments: tuple[DeviceSet | str, ...]
    operator: Literal["<=", "<", ">=", ">", "=="]
    value: float
    text: str = field(default="", eq=False)


@frozen
class Expect(Block):
    """Conditions that the compiled placement must meet."""

    conditions: tuple[Condition, ...] = ()
