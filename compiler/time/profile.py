"""The profile of a machine: what `tfdeploy calibrate` has measured ops, threads and links to cost.

These records are the file `NAME.profile.json`. Times are in seconds. Fields may be added within a major
format version; none is removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from attrs import field, fields, frozen

from dsl.diagnostics import RunError
from dsl.errors import plan as errors
from dsl.files.typed_json import BadRecord, Count, read_record

FORMAT_VERSION = "1.0"
LIMIT = 1 << 26
"""The largest profile that is read, in bytes; that of ResNet-50 is a hundredth of it."""

ENDING = ".profile.json"
"""What replaces the ending of a spec in the name of its profile."""


@frozen
class MeasuredMachine:
    """The machine that was measured.

    Attributes:
        processor: The name of its processor.
        cores: The cores that the process could use.
        tensorflow: The version of TensorFlow.
    """

    processor: str
    cores: Count
    tensorflow: str


@frozen
class OpCost:
    """What one run of an op costs on a CPU; a median over steps, and a mean over ops with equal signatures.

    Attributes:
        type: The type of the op.
        inputs: The type and shape of each input.
        detail: Attributes that change the work.
        flops: The floating point operations of the op, from which the times of other sizes are estimated.
        bytes: The bytes that it reads and writes, for the same purpose.
        ops: How many ops of the measured step are alike in all this; 0 if it was measured by itself.
        runs: How many kernels TensorFlow started for it: 0 if the op is fused into another one.
        alone: Its time with one thread, while nothing else ran.
        crowded: Its time with one thread, while all other cores were busy with ops of the same step.
        wide: Its time with a thread for each core, while nothing else ran; None if there is one core.
    """

    type: str
    inputs: tuple[str, ...]
    detail: str
    flops: Count
    bytes: Count
    ops: Count
    runs: float
    alone: float
    crowded: float
    wide: float | None = None


@frozen
class LinkCost:
    """A kind of link between devices.

    Attributes:
        kind: `process` between logical devices of one process, `network` between two processes.
        latency: The time of an empty tensor.
        bytes_per_second: The speed of large tensors; None if no bytes are copied.
        message: How long a tensor without bytes keeps the link from carrying the next one.
        processors: The cores that both ends together use while the link carries bytes.
        work: The time that processors need for a tensor besides its bytes; None if that was not measured, and
            they need as many cores as for bytes.
        asking: How long a thread of the receiver is kept from its ops by asking for a tensor.
        giving: How long a thread of the sender is kept from its ops by handing a tensor over.
    """

    kind: Literal["process", "network"]
    latency: float
    bytes_per_second: float | None
    message: float = 0.0
    processors: float = 0.0
    work: float | None = None
    asking: float = 0.0
    giving: float = 0.0

    def seconds(self, size: int) -> float:
        """Return how long the link is taken by a tensor of `size` bytes, without the latency."""
        return self.message + self._carrying(size)

    def cores(self, size: int) -> float:
        """Return the cores that both ends together use while the link is taken by a tensor."""
        taken = self.seconds(size)
        work = max(0.0, self._work - self.asking - self.giving)
        return (work + self.processors * self._carrying(size)) / taken if taken else 0.0

    @property
    def thread_cores(self) -> float:
        """The cores that a thread uses while it asks for a tensor or hands it over.

        A part of that it waits for others.
        """
        threads = self.asking + self.giving
        return min(1.0, self._work / threads) if threads else 1.0

    @property
    def _work(self) -> float:
        return self.processors * self.message if self.work is None else self.work

    def _carrying(self, size: int) -> float:
        return size / self.bytes_per_second if self.bytes_per_second is not None else 0.0


@frozen
class Profile:
    """A whole profile.

    Attributes:
        machine: The machine.
        specs: The paths of the specs whose ops were measured.
        step_start: What a step costs before its first op starts and after its last one ends.
        op_start: What starting an op costs, on the thread that runs it.
        hand_over: How long an op waits for a thread of the pool that has nothing to do.
        flops_per_second: What one core reaches in ops that mostly compute.
        bytes_per_second: The bytes that one core reads and writes in ops that mostly move data.
        ops: The costs of ops.
        links: The costs of links.
        cluster_start: What a step costs before its first op starts and after its last one ends if several
            processes work on it; None if that was not measured.
        cluster_processors: The cores that the processes use meanwhile.
        awake: The cores that a process uses, as a mean, while it runs one op at a time with a thread for each
            core: threads that have nothing to do look for work for a while.
        tower_awake: The cores that it uses, as a mean, while it runs one tower with as many ops at a time and
            as many threads for each as there are cores; None if that was not measured.
        serial: What a whole step took without a trace, with one op at a time; None if that is not known.
        parallel: What it took with as many ops at a time as there are cores, each on one thread.
        format_version: The version of the format.
    """

    machine: MeasuredMachine
    specs: tuple[str, ...]
    step_start: float
    op_start: float
    hand_over: float
    flops_per_second: float
    bytes_per_second: float
    ops: tuple[OpCost, ...]
    links: tuple[LinkCost, ...]
    cluster_start: float | None = None
    cluster_processors: float = 1.0
    awake: float = 0.0
    tower_awake: float | None = None
    serial: float | None = None
    parallel: float | None = None
    format_version: str = FORMAT_VERSION


MOST_CORES = 4096
"""The most cores of a machine. The forecast follows each of them."""
MOST = 1e9
"""The most seconds that anything takes, and the most kernels that an op starts: sums of them are finite."""
LEAST_SPEED = 1.0
"""The fewest operations or bytes of a second."""


def read_profile(path: Path | str) -> Profile:
    """Read a profile; raises RunError if the file is none, or one of a major version that is not known."""
    try:
        found = read_record(path, Profile, LIMIT)
    except BadRecord as fault:
        raise RunError(errors.bad_profile(path=str(path), reason=str(fault))) from fault
    if found.format_version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        reason = f"has format {found.format_version}, and this version reads 1.x"
        raise RunError(errors.bad_profile(path=str(path), reason=reason))
    if not 0 < found.machine.cores <= MOST_CORES or _is_impossible(found):
        raise RunError(
            errors.bad_profile(path=str(path), reason="has a time, a speed or a count that cannot be")
        )
    return found


def _is_impossible(profile: Profile) -> bool:
    """Whether a time of a profile is negative or beyond all measure, or a speed is next to nothing."""
    records: list[Any] = [profile, *profile.ops, *profile.links]
    figures: list[tuple[str, Any]] = [
        (each.name, getattr(record, each.name)) for record in records for each in fields(type(record))
    ]
    known = [(name, value) for name, value in figures if isinstance(value, int | float)]
    speeds = [value for name, value in known if name in _SPEEDS]
    times = [value for name, value in known if name not in (*_SPEEDS, *_COUNTS)]
    return bool(min(times) < 0 or max(times) > MOST or min(speeds) < LEAST_SPEED)


_SPEEDS, _COUNTS = ("flops_per_second", "bytes_per_second"), ("flops", "bytes", "ops")


def profile_beside(spec: str) -> Path:
    """Return the file in which the profile of a spec is looked for: beside it, under its name."""
    path = Path(spec)
    return path.with_name(path.name.removesuffix(".tfdeploy") + ENDING)


@frozen
class FoundProfile:
    """A profile and the file that it was read from."""

    path: str
    profile: Profile = field(repr=False)


def find_profile(spec: str, path: str | None) -> FoundProfile | None:
    """Return the profile in the file `path`, or the one beside a spec, or None if there is neither.

    Raises:
        RunError: If the file is no profile.
    """
    if path is None:
        beside = profile_beside(spec)
        if not beside.is_file():
            return None
        path = str(beside)
    return FoundProfile(path, read_profile(path))
