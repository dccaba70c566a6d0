"""Which task a process is, by the spec, its options and what launchers set, and what it may do as that."""

import json
from pathlib import Path

import pytest

from dsl import ir
from dsl.diagnostics import SpecError
from grammar import load
from tests.runtime.tasks import SPEC
from tests.support import refusal, refusal_of
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task, to_tf_config
from tfdeploy.runtime.membership.membership import (
    LAUNCHER,
    find_membership,
    hosts_of,
    is_server,
    require_server,
    require_trainer,
    with_run_secret,
)
from tfdeploy.runtime.membership.ranks import Rank, lone_process, nodes_of, rank_of
from tfdeploy.runtime.membership.secret import VARIABLE, path_of

HOSTS = {"ps": 'hosts = ["p:1"]', "worker": 'hosts = ["a:1", "b:1"]'}
COUNTS = {"ps": "tasks = 1", "worker": "tasks = 2"}
OF_SPEC = Cluster.of({"ps": ["p:1"], "worker": ["a:1", "b:1"]})
OTHER = Cluster.of({"ps": ["x:1"], "worker": ["y:1", "z:1"]})
ONE = Task("worker", 1)


@pytest.fixture
def spec(tmp_path: Path) -> ir.Spec:
    """Return a spec whose jobs have addresses."""
    return loaded(tmp_path, HOSTS)


def loaded(folder: Path, jobs: dict[str, str], **overrides: str) -> ir.Spec:
    """Return a spec with these jobs."""
    path = folder / "spec.tfdeploy"
    path.write_text(SPEC.format(**jobs))
    return load(path, [(name.replace("__", "."), value) for name, value in overrides.items()])


@pytest.mark.parametrize(
    ("config", "task", "cluster", "own", "given_by"),
    [
        (None, None, OF_SPEC, None, "spec"),
        (None, ONE, OF_SPEC, ONE, "spec"),
        (to_tf_config(OTHER, None), None, OTHER, None, "TF_CONFIG"),
        (to_tf_config(OTHER, ONE), None, OTHER, ONE, "TF_CONFIG"),
        (to_tf_config(OTHER, ONE), ONE, OTHER, ONE, "TF_CONFIG"),
        (to_tf_config(OTHER, None), ONE, OTHER, ONE, "TF_CONFIG"),
        ("  ", ONE, OF_SPEC, ONE, "spec"),
        ("{}", ONE, OF_SPEC, ONE, "spec"),
    ],
)
def test_the_environment_precedes_the_spec(
    spec: ir.Spec, config: str | None, task: Task | None, cluster: Cluster, own: Task | None, given_by: str
) -> None:
    """An option names the task if TF_CONFIG names none."""
    environment = {} if config is None else {"TF_CONFIG": config}
    found = find_membership(spec, environment, task)
    assert (found.cluster, found.task, found.given_by) == (cluster, own, given_by)


def test_a_task_that_two_say_differently_is_refused(spec: ir.Spec) -> None:
    """Both are named."""
    environment = {"TF_CONFIG": to_tf_config(OTHER, ONE)}
    found = refusal(find_membership, spec, environment, Task("ps", 0))
    assert "says that this is `worker:1`, and `--task` says `ps:0`" in found.message


@pytest.mark.parametrize("task", [Task("worker", 2), Task("ps", 1), Task("other", 0)])
def test_a_task_that_there_is_not_is_refused(spec: ir.Spec, task: Task) -> None:
    """All that there are are named."""
    with pytest.raises(SpecError) as caught:
        find_membership(spec, {}, task)
    said = json.dumps([str(each) for each in caught.value.diagnostics])
    assert f"`{task.ref}`" in said
    assert [ref for ref in ("ps:0", "worker:0", "worker:1") if ref not in said] == []


def test_without_addresses_there_is_no_membership(tmp_path: Path) -> None:
    """Also if only one job has them; a task of which they are not known cannot begin."""
    for jobs in (COUNTS, {**COUNTS, "ps": HOSTS["ps"]}):
        spec = loaded(tmp_path, jobs)
        assert hosts_of(spec) is None
        assert find_membership(spec, {}) is None
        with pytest.raises(SpecError) as caught:
            find_membership(spec, {}, ONE)
        missing = "`ps`" if jobs == COUNTS else "`worker`"
        assert missing in str(caught.value.diagnostics[0].message)


@pytest.mark.parametrize(
    ("replication", "servers"), [("in_graph", ["ps:0", "worker:0", "worker:1"]), ("between_graph", ["ps:0"])]
)
def test_who_serves_and_who_trains(tmp_path: Path, replication: str, servers: list[str]) -> None:
    """In one graph all tasks serve, and the client trains; otherwise each worker trains, and no client."""
    spec = loaded(tmp_path, HOSTS, update__replication=replication)
    membership = Membership(OF_SPEC, None, "")
    assert [each.ref for each in OF_SPEC.tasks if is_server(spec, each)] == servers
    for task in OF_SPEC.tasks:
        serves = task.ref in servers
        own = Membership(OF_SPEC, task, "")
        if serves:
            require_server(spec, task)
            with pytest.raises(SpecError, match=task.ref):
                require_trainer(spec, own)
        else:
            require_trainer(spec, own)
            with pytest.raises(SpecError, match=task.ref):
                require_server(spec, task)
    if replication == "in_graph":
        require_trainer(spec, membership)
    else:
        found = refusal_of(lambda: require_trainer(spec, membership))
        assert found.notes == ("the workers are `worker:0` and `worker:1`",)


@pytest.mark.parametrize(
    ("text", "launcher"), [(None, None), ("", None), ("77", 77), ("-7", None), ("\u0667", None)]
)
def test_the_launcher_is_a_number(tmp_path: Path, text: str | None, launcher: int | None) -> None:
    """Anything else names none."""
    environment = {VARIABLE: str(tmp_path / "secret"), **({} if text is None else {LAUNCHER: text})}
    found = with_run_secret(Membership(OF_SPEC, ONE, ""), environment)
    assert found.launcher == launcher
    assert found.secret is not None
    assert (found.cluster, found.task) == (OF_SPEC, ONE)


def test_tasks_of_one_machine_have_one_host() -> None:
    """Whatever their ports; a task is beside itself."""
    cluster = Cluster.of({"ps": ["a:1", "[fd00::1]:1"], "worker": ["a:2", "b:1", "[fd00::1]:2"]})
    refs = {each.ref: [one.ref for one in cluster.beside(each)] for each in cluster.tasks}
    assert refs["ps:0"] == refs["worker:0"] == ["ps:0", "worker:0"]
    assert refs["worker:1"] == ["worker:1"]
    assert refs["ps:1"] == ["ps:1", "worker:2"]


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({VARIABLE: "/s", "XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/s"),
        ({VARIABLE: "", "XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/tfdeploy/secret"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/tfdeploy/secret"),
    ],
)
def test_where_the_secret_of_a_user_is(environment: dict[str, str], path: str) -> None:
    """Where the variable says, else among the settings of the user."""
    assert str(path_of(environment)) == path


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
        pytest.param(
            {**TORCHRUN, "MASTER_ADDR": "fd00::1"},
            Rank("torchrun", 0, 2, "", meets_at="[fd00::1]:29500"),
            id="torchrun over IPv6",
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
