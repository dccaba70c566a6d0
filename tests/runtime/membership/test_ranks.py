"""Which of several processes this is, by the variables that Slurm, MPI and torchrun set."""

from __future__ import annotations

import pytest

from tests.support import refusal
from tfdeploy.runtime.membership.ranks import Rank, lone_process, nodes_of, rank_of

SLURM = {
    "SLURM_JOB_ID": "71",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NODELIST": "n[2,10],gpu01",
    "SLURM_NODEID": "1",
}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "prte-9@1"}
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "8", "SLURM_JOB_ID": "5"}


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param(SLURM, Rank("Slurm", 2, 3, "71-0", "n10"), id="slurm"),
        pytest.param(
            {**SLURM, "SLURM_RESTART_COUNT": "1"}, Rank("Slurm", 2, 3, "71-0-1", "n10"), id="requeued"
        ),
        pytest.param(OPEN_MPI, Rank("Open MPI", 1, 4, "prte-9@1"), id="mpi"),
        pytest.param({**SLURM, **OPEN_MPI}, Rank("Open MPI", 1, 4, "prte-9@1"), id="mpi under slurm"),
        pytest.param(HYDRA, Rank("MPI", 3, 8, "5"), id="hydra"),
        pytest.param(TORCHRUN, Rank("torchrun", 0, 2, "", None, "n1:29500"), id="torchrun"),
        pytest.param(
            {**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "r"},
            Rank("torchrun", 0, 2, "r"),
            id="an agent has the port",
        ),
        pytest.param({"RANK": "0", "WORLD_SIZE": "1"}, None, id="alone"),
        pytest.param({"SLURM_PROCID": "0", "SLURM_NTASKS": "3"}, None, id="the batch script itself"),
    ],
)
def test_a_manager_numbers_its_processes(environment: dict[str, str], rank: Rank | None) -> None:
    """The manager that has started the process comes before those that have started the manager."""
    assert rank_of(environment) == rank


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"SLURM_PROCID": "two"}, "SLURM_PROCID"),
        ({"SLURM_STEP_NUM_TASKS": "-1"}, "SLURM_STEP_NUM_TASKS"),
        ({"SLURM_STEP_NODELIST": "n[2"}, "SLURM_STEP_NODELIST"),
        ({"SLURM_STEP_NODELIST": "n[a-b]"}, "SLURM_STEP_NODELIST"),
        ({"SLURM_NODEID": "3"}, "SLURM_STEP_NODELIST"),
    ],
)
def test_what_says_no_number_is_refused_without_showing_it(changed: dict[str, str], name: str) -> None:
    """The message names the variable."""
    found = refusal(rank_of, {**SLURM, **changed})
    assert found.code == "TFD788"
    assert f"`{name}`" in found.message
    assert next(iter(changed.values())) not in found.message


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("login", ["login"]),
        ("n[2,10]", ["n2", "n10"]),
        ("n[08-10,3],m1", ["n08", "n09", "n10", "n3", "m1"]),
        ("r[0-1]n[1-2]-ib", ["r0n1-ib", "r0n2-ib", "r1n1-ib", "r1n2-ib"]),
    ],
)
def test_lists_of_machines_keep_their_order_and_zeros(text: str, nodes: list[str]) -> None:
    """Several brackets are a product, of which the last one varies fastest."""
    assert list(nodes_of(text)) == nodes


@pytest.mark.parametrize("number", ["3", "7"])
def test_processes_are_counted_from_0(number: str) -> None:
    """Whoever sets the numbers by hand may begin with 1; the last process has the number of all then."""
    found = refusal(rank_of, {"RANK": number, "WORLD_SIZE": "3"})
    assert (found.code, found.message) == (
        "TFD788",
        "`RANK` in the environment is not less than `WORLD_SIZE`",
    )


@pytest.mark.parametrize(
    ("environment", "note"),
    [
        ({}, None),
        (SLURM, None),
        (OPEN_MPI, None),
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "3"},
            "Slurm has not set `SLURM_STEP_NUM_TASKS`; `srun --ntasks=3` starts a process for each",
        ),
        (
            {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
            "Slurm has started it alone; `srun --ntasks=3` starts a process for each",
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
            "Open MPI has started it alone; `mpirun -n 3` starts a process for each",
        ),
        ({"RANK": "1"}, "torchrun has not set `WORLD_SIZE`"),
    ],
)
def test_a_process_that_was_started_alone_says_so(environment: dict[str, str], note: str | None) -> None:
    """All tasks are on one machine then, which may be a mistake."""
    found = lone_process(environment, 3)
    start = "this process starts all 3 tasks on this machine, because "
    assert found == (None if note is None else start + note)
