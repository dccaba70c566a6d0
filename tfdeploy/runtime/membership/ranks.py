"""What Slurm, MPI and torchrun say of a process that they have started: its number and its machine.

The variables are those that their documentation names. TF_CONFIG, which has addresses too, is read by
`addresses.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice, product

from attrs import frozen

from dsl.diagnostics import RunError
from dsl.errors import cluster as errors

_NUMBER = re.compile(r"\d{1,9}")
_RANGES = re.compile(r"\[([^\[\]]*)\]")
_SPAN = re.compile(r"(?P<first>\d{1,6})(?:-(?P<last>\d{1,6}))?")


@frozen
class Manager:
    """What starts processes."""

    name: str
    rank: str  # the variable with the number of a process, from 0
    size: str  # the variable with how many processes there are
    # Variables that together tell one start of the processes from another, if they are set.
    runs: tuple[str, ...]


MANAGERS = (
    Manager(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    Manager("torchrun", "RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")),
    Manager("MPI", "PMI_RANK", "PMI_SIZE", ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")),
    Manager(
        "Slurm",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    ),
)
"""Those that start others come before those by which they are started: `mpirun` may run under Slurm."""


START = {
    "Open MPI": "mpirun -n {tasks}",
    "MPI": "mpirun -n {tasks}",
    "Slurm": "srun --ntasks={tasks}",
}
"""How as many processes as tasks are started, by the names of managers."""


@frozen
class Rank:
    """A process among those that a cluster manager has started together."""

    manager: str
    number: int
    size: int  # how many processes there are, at least 2
    run: str  # a text that differs between two starts of the same processes, as far as the manager says it
    host: str | None = None  # the name of the machine; None if the manager does not say it
    # An address of the first process that all others can reach; None if there is none.
    meets_at: str | None = None


def rank_of(environment: Mapping[str, str]) -> Rank | None:
    """Return which of several processes this is; None if no manager has started several.

    Raises:
        RunError: If what the environment says is no number, no list of machines, or not less than the number
            of processes.
    """
    found = next((each for each in MANAGERS if each.rank in environment and each.size in environment), None)
    if found is None:
        return None
    number, size = (_number(environment, name) for name in (found.rank, found.size))
    if size < 2:  # noqa: PLR2004 one process is no cluster
        return None
    if number >= size:
        raise RunError(errors.no_such_number(name=found.rank, size=found.size))
    run = "-".join(environment[name] for name in found.runs if environment.get(name))
    host = _node(environment) if found.name == "Slurm" else None
    at = None
    if found.name == "torchrun" and environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        first, port = environment.get("MASTER_ADDR"), environment.get("MASTER_PORT")
        host_of_first = f"[{first}]" if first and ":" in first and first[0] != "[" else first
        at = f"{host_of_first}:{port}" if first and port else None
    return Rank(found.name, number, size, run, host, at)


def lone_process(environment: Mapping[str, str], tasks: int) -> str | None:
    """Return a sentence if a manager seems to have started this process alone, and not one for each task."""
    found = next((each for each in MANAGERS if each.rank in environment), None)
    if found is None:
        return None
    size = environment.get(found.size, "").strip()
    if size and size != "1":
        return None
    alone = "has started it alone" if size else f"has not set `{found.size}`"
    start = START.get(found.name)
    more = f"; `{start.format(tasks=tasks)}` starts a process for each" if start else ""
    return f"this process starts all {tasks} tasks on this machine, because {found.name} {alone}{more}"


def _number(environment: Mapping[str, str], name: str) -> int:
    """Return the number in a variable, whose value is never shown, because it may be there by mistake."""
    text = environment[name].strip()
    if not _NUMBER.fullmatch(text):
        raise RunError(errors.no_number(name=name))
    return int(text)


def _node(environment: Mapping[str, str]) -> str | None:
    """Return the name of this machine as Slurm's list of the step's machines has it."""
    machines, place = environment.get("SLURM_STEP_NODELIST"), environment.get("SLURM_NODEID")
    if not machines or not place:
        return environment.get("SLURMD_NODENAME")
    try:
        return next(islice(nodes_of(machines), _number(environment, "SLURM_NODEID"), None))
    except (StopIteration, ValueError):
        raise RunError(errors.no_number(name="SLURM_STEP_NODELIST")) from None


def nodes_of(text: str) -> Iterator[str]:
    """Yield the machines of a list as Slurm writes it, such as `rack[0-1]n[08-10,12],login`, in its order.

    Numbers keep their leading zeros. If a name has several brackets, those on the right vary fastest.

    Raises:
        ValueError: The list is malformed.
    """
    for name in re.split(r",(?![^\[]*\])", text.strip()):
        texts = _RANGES.split(name)
        if any(sign in "".join(texts[::2]) for sign in "[], "):
            raise ValueError(name)
        pieces = [[each] if at % 2 == 0 else list(_numbers(each)) for at, each in enumerate(texts)]
        yield from map("".join, product(*pieces))


def _numbers(text: str) -> Iterator[str]:
    spans = [_SPAN.fullmatch(each) for each in text.split(",")]
    if not all(spans):
        raise ValueError(text)
    yield from chain.from_iterable(
        (
            f"{number:0{len(each['first'])}}"
            for number in range(int(each["first"]), int(each["last"] or each["first"]) + 1)
        )
        for each in spans
        if each is not None
    )
