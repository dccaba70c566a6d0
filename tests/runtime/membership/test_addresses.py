"""Tasks, addresses, what TF_CONFIG says of them, and the secret of a run."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from socket import AF_INET, AF_INET6, AddressFamily, gaierror

import pytest

from dsl import ir
from dsl.formats.render import human
from dsl.ir.place import split_address
from grammar import load
from tests.runtime.tasks import SPEC, Tasks
from tests.support import refusal
from tfdeploy.runtime.membership.addresses import (
    Cluster,
    Membership,
    Task,
    family_of,
    read_tf_config,
    to_tf_config,
)
from tfdeploy.runtime.membership.membership import fingerprint
from tfdeploy.runtime.membership.secret import VARIABLE, own_secret, path_of, secret_of
from tfdeploy.runtime.records.effective import effective_text

JOBS = (ir.Job("ps", tasks=1), ir.Job("worker", tasks=3))
CLUSTER = Cluster.of({"ps": ["p:1"], "worker": ["a:1", "b:1", "c:1"]})


def config(task: object = None, **jobs: list[str]) -> str:
    """Return the text of a TF_CONFIG as Kubeflow's training operator writes it."""
    return json.dumps({"cluster": jobs, "task": task, "environment": "cloud"})


def test_tasks_have_names_and_order() -> None:
    """A cluster lists its tasks in the spec's order; the chief is the first that is no parameter server."""
    assert [each.ref for each in CLUSTER.tasks] == ["ps:0", "worker:0", "worker:1", "worker:2"]
    assert CLUSTER.chief == Task("worker", 0)
    assert CLUSTER.address(Task("worker", 2)) == "c:1"
    assert (Task("worker", 2) in CLUSTER, Task("worker", 3) in CLUSTER, Task("x", 0) in CLUSTER) == (
        True,
        False,
        False,
    )
    assert Task.parse("worker:12") == Task("worker", 12)
    assert Task("ps", 0).tensorflow_name == "/job:ps/replica:0/task:0"
    membership = Membership(CLUSTER, Task("worker", 0), "")
    assert membership.own == Task("worker", 0)
    assert [each.ref for each in membership.others] == ["ps:0", "worker:1", "worker:2"]


@pytest.mark.parametrize("text", ["worker", "worker:", "worker:-1", ":1", "worker:1:2", "a b:1"])
def test_what_names_no_task(text: str) -> None:
    """A task is a job and a number."""
    with pytest.raises(ValueError, match="is not of the form JOB:INDEX, as in worker:1"):
        Task.parse(text)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("localhost:2222", ("localhost", 2222)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("[fd00::2]:1", ("fd00::2", 1)),
        ("run-worker-0.ml.svc:2222", ("run-worker-0.ml.svc", 2222)),
    ],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    """An address is a host and a port."""
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":1", "host:0", "host:65536", "host:x", "::1:80", "[x]:1", "a b:1", "http://a:1"],
)
def test_what_is_no_address(address: str) -> None:
    """Anything else is refused with a reason."""
    with pytest.raises(ValueError, match=r"form|ports|IPv6|hosts"):
        split_address(address)


@pytest.mark.parametrize(
    ("kinds", "found"), [((4,), AF_INET), ((6, 4), AF_INET), ((6,), AF_INET6), ((), AF_INET)]
)
def test_a_name_of_ipv6_alone_is_listened_for_there(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[int, ...], found: AddressFamily
) -> None:
    """Any other name leads to an address of IPv4, or is not known, which is told when it is used."""

    def resolve(*_: object, **__: object) -> list[tuple[AddressFamily]]:
        if not kinds:
            raise gaierror
        return [(AF_INET if each == 4 else AF_INET6,) for each in kinds]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    assert family_of("name") == found


@pytest.mark.parametrize(
    ("task", "own"),
    [
        ({"type": "worker", "index": 1}, Task("worker", 1)),
        ({"type": "ps", "index": "0"}, Task("ps", 0)),
        (None, None),
        ({}, None),
    ],
)
def test_tf_config_with_the_jobs_of_the_spec(task: object, own: Task | None) -> None:
    """Jobs are put in the spec's order; a process without a task is a client."""
    text = config(task, worker=["a:1", "b:1", "c:1"], ps=["p:1"])
    given = read_tf_config(text, JOBS)
    assert given == (CLUSTER, own)
    assert list(given[0].jobs) == ["ps", "worker"]
    assert read_tf_config(to_tf_config(CLUSTER, own), JOBS) == given


def test_the_fingerprint_of_a_spec_is_that_of_its_meaning(tmp_path: Path) -> None:
    """Overrides count and so do defaults that are written out; spaces and folders do not."""
    text = SPEC.format(ps="tasks = 1", worker="tasks = 2")
    (tmp_path / "a.tfdeploy").write_text(text)
    spec = load(str(tmp_path / "a.tfdeploy"))
    (tmp_path / "b.tfdeploy").write_text(effective_text(spec, tmp_path / "run"))
    assert fingerprint(load(str(tmp_path / "b.tfdeploy"))) == fingerprint(spec)
    (tmp_path / "a.tfdeploy").write_text(f"{text}# a comment\n")
    assert fingerprint(load(str(tmp_path / "a.tfdeploy"))) == fingerprint(spec)
    other = load(str(tmp_path / "a.tfdeploy"), [("clones.batch", "9")])
    assert fingerprint(other) != fingerprint(spec)


@pytest.mark.parametrize("name", ["chief", "master"])
@pytest.mark.parametrize(
    ("task", "own"),
    [
        (("chief", 0), Task("worker", 0)),
        (("worker", 0), Task("worker", 1)),
        (("worker", 1), Task("worker", 2)),
        (("ps", 0), Task("ps", 0)),
    ],
)
def test_the_chief_of_kubeflow_is_the_first_worker(name: str, task: tuple[str, int], own: Task) -> None:
    """`chief`, or `master` as it was called, becomes worker 0, and the workers move up by one."""
    kind = name if task[0] == "chief" else task[0]
    written = {"type": kind, "index": task[1]}
    text = config(written, **{name: ["a:1"], "worker": ["b:1", "c:1"], "ps": ["p:1"]})
    assert read_tf_config(text, JOBS) == (CLUSTER, own)


def test_a_job_that_the_spec_calls_chief_stays_one() -> None:
    """Where the spec has that job, nothing is renamed."""
    jobs = (ir.Job("ps"), ir.Job("chief"), ir.Job("worker", tasks=2))
    text = config({"type": "worker", "index": 1}, ps=["p:1"], chief=["a:1"], worker=["b:1", "c:1"])
    cluster, task = read_tf_config(text, jobs)
    assert task == Task("worker", 1)
    assert cluster.chief == Task("chief", 0)


@pytest.mark.parametrize("text", ["{}", '{"cluster": {}}', '{"cluster": {"worker": []}, "task": {}}'])
def test_a_tf_config_without_a_cluster_says_nothing(text: str) -> None:
    """Such a process belongs to no cluster."""
    assert read_tf_config(text, JOBS) is None


def test_a_tf_config_that_cannot_be_used(golden: Callable[[str, str], None]) -> None:
    """It is said what is amiss, and never what the variable holds."""
    workers = ["a:1", "b:1", "c:1"]
    texts = [
        '{"cluster": s3cret',
        '["s3cret"]',
        '{"task": {"type": "worker"}}',
        '{"cluster": {"ps": "s3cret:1"}}',
        config(ps=["p:1"], worker=["a:1", "b:1"]),
        config(ps=["p:1"], worker=workers, evaluator=["s3cret:1"]),
        config(ps=["s3cret"], worker=workers),
        config(ps=["a:1"], worker=workers),
        config({"type": "worker", "index": True}, ps=["p:1"], worker=workers),
        config({"index": 0}, ps=["p:1"], worker=workers),
        config({"type": "worker", "index": 3}, ps=["p:1"], worker=workers),
        config({"type": "s3cret"}, ps=["p:1"], worker=workers),
    ]
    told = [f"{text}\n{''.join(human([refusal(read_tf_config, text, JOBS)]))}" for text in texts]
    golden("tf_config.txt", "\n".join(told))
    assert not any("s3cret" in each.partition("\n")[2] for each in told)


SCRIPT = (
    "import os; from tfdeploy.runtime.membership.secret import secret_of; "
    "print(secret_of(os.environ).public_digest)"
)


def reason(path: Path) -> str:
    """Return why a file is refused."""
    found = refusal(lambda: secret_of({VARIABLE: str(path)}))
    assert found.code == "TFD770"
    return found.message


def test_whoever_comes_first_makes_it(tmp_path: Path) -> None:
    """Processes that begin at once have one secret, which others cannot read, and leave nothing beside it."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environment.pop(VARIABLE, None)
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    marks = {each.communicate()[0] for each in processes}
    (path,) = (tmp_path / "config" / "tfdeploy").iterdir()
    assert path == path_of(environment)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert marks == {f"{secret_of(environment).public_digest}\n"}


def test_every_launch_has_its_own() -> None:
    """Two launchers have two secrets, and neither leaves its own behind."""
    with own_secret() as first, own_secret() as second:
        marks = {secret_of({VARIABLE: str(each)}).public_digest for each in (first, second)}
        assert len(marks) == 2
        assert {stat.S_IMODE(each.stat().st_mode) for each in (first, second)} == {0o600}
    assert not first.parent.exists()
    with own_secret() as first:
        shutil.rmtree(first.parent)  # then nothing is left to remove


def test_a_word_is_for_one_server_alone(tmp_path: Path) -> None:
    """What one server was told is of no use for another, nor with another secret."""
    secret = secret_of({VARIABLE: str(tmp_path / "one")})
    shutdown_token = secret.shutdown_token("a")
    assert secret.is_shutdown_token(shutdown_token, "a")
    assert not secret.is_shutdown_token(shutdown_token, "b")
    assert not secret.is_shutdown_token("\xe9", "a")
    assert not secret_of({VARIABLE: str(tmp_path / "two")}).is_shutdown_token(shutdown_token, "a")
    assert shutdown_token not in repr(secret)


def test_files_that_are_refused(tmp_path: Path) -> None:
    """Files that others read, that hold next to nothing, or are none; a FIFO does not hang."""
    path = tmp_path / "secret"
    secret_of({VARIABLE: str(path)})
    path.chmod(0o640)
    assert reason(path).endswith("others than its user can read it")
    path.write_text("short")
    path.chmod(0o600)
    assert reason(path).endswith("it holds less than 32 bytes")
    assert reason(tmp_path).endswith("it is no file")
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert reason(tmp_path / "fifo").endswith("it is no file")
    assert reason(path / "below").endswith("not a directory")


@pytest.mark.full
def test_a_client_with_another_secret_is_refused(tasks: Tasks) -> None:
    """It could not end the servers, and says so before it trains."""
    server = tasks.serve("ps:0")
    server.until("listens")
    workers = [tasks.serve(f"worker:{index}") for index in range(2)]
    client = tasks.start("compile-and-run", str(tasks.spec), TFDEPLOY_SECRET_FILE=str(tasks.folder / "other"))
    assert client.end() == 2
    assert "does not have the secret of this process" in client.text
    assert "error[TFD771]" in client.text
    for each in (server, *workers):
        assert each.process.poll() is None
