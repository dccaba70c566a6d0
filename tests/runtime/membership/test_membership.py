"""Which task a process is, by the spec, TF_CONFIG and its options, and what it may do as that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsl import ir
from dsl.diagnostics import SpecError
from grammar import load
from tests.runtime.tasks import SPEC
from tests.support import refusal
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
        with pytest.raises(SpecError) as caught:
            require_trainer(spec, membership)
        assert caught.value.diagnostics[0].notes == ("the workers are `worker:0` and `worker:1`",)


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
