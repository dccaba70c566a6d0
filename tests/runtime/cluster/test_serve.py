"""`serve`: servers as processes, where they listen, how they end, and what they refuse."""

import json
import re
import signal
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runtime.tasks import Tasks, secret_of_folder
from tfdeploy.runtime.cluster.identity import FINISHED, Answer, ask, shut_down, write_text
from tfdeploy.runtime.cluster.monitor import TaskStatus, cluster_status, running_cluster
from tfdeploy.runtime.membership.addresses import Task, to_tf_config
from tfdeploy.runtime.membership.membership import fingerprint

LISTEN = "0A"


def listening(pid: int) -> set[str]:
    """Return the addresses at which a process listens, as the operating system tells."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            target = str(entry.readlink())
            if target.startswith("socket:["):
                inodes.add(target.removeprefix("socket:[").rstrip("]"))
    found = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTEN and columns[9] in inodes:
                host, port = columns[1].split(":")
                words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
                text = socket.inet_ntop(family, b"".join(struct.pack("=I", word) for word in words))
                found.add(f"{text.removeprefix('::ffff:')}:{int(port, 16)}")
    return found


def test_a_server_listens_on_the_loopback_address_alone_and_ends_with_the_run(tasks: Tasks) -> None:
    """One line says where it listens and one that it has ended; nothing else is open; the exit code is 0."""
    server = tasks.serve("ps:0")
    assert server.until("listens") == f"ps:0 listens at {tasks.address(0)}"
    assert listening(server.pid) == {tasks.address(0)}
    spec = tasks.load()
    answer = ask(tasks.address(0), 10)
    assert answer.task == Task("ps", 0)
    assert answer.identity.task == Task("ps", 0)
    assert answer.identity.spec_sha256 == fingerprint(spec)
    there, *missing = cluster_status(running_cluster(spec, {}))
    assert (there.name, there.address, there.well) == ("ps:0", tasks.address(0), True)
    assert there.health.memory > 1 << 24
    assert re.fullmatch(rf"up for \d.*, process {server.pid} on \S+", there.words)
    assert missing == [
        TaskStatus(f"worker:{index}", tasks.address(index + 1), well=False, words="nothing listens there")
        for index in range(2)
    ]
    (other, *_) = cluster_status(running_cluster(tasks.load(clones__batch=16), {}))
    assert (other.well, other.words.endswith(", with another spec")) == (False, True)
    for job, code, words in (
        ("ps", 0, f"ps:0  {tasks.address(0)}  answers\n"),
        ("worker", 1, "nothing listens"),
    ):
        told = to_tf_config(running_cluster(spec, {}).cluster, Task(job, 0))
        asked = tasks.start("status", str(tasks.spec), "--own", TF_CONFIG=told)
        assert (asked.end(), words in asked.text) == (code, True), asked.text
    secret = secret_of_folder(tasks.folder)
    assert answer.identity.secret == secret.public_digest
    for shutdown_token in ("", "True", secret.shutdown_token("another incarnation"), secret.public_digest):
        assert write_text(tasks.address(0), 10, FINISHED, shutdown_token)
        time.sleep(0.7)  # it looks every half second
    warned = server.until("asked")
    assert warned.endswith(
        "somebody without the secret of the run has asked `ps:0` to shut down, which it does not do"
    )
    assert shut_down(tasks.address(0), 10, secret)
    assert server.end() == 0
    said = [line for line in server.lines if line.startswith("ps:0")]
    assert said == [f"ps:0 listens at {tasks.address(0)}", "ps:0 ended with the run"]
    assert server.text.count("warning[TFD772]") == 1


def test_a_signal_ends_a_server(tasks: Tasks) -> None:
    """Its exit code tells which."""
    ends = ((signal.SIGTERM, 143), (signal.SIGINT, 130))
    servers = [tasks.serve("worker:0"), tasks.serve("worker:1")]
    for index, (server, (number, code)) in enumerate(zip(servers, ends, strict=True)):
        server.until("listens")
        server.send(number)
        assert server.end() == code
        assert server.lines == [
            f"worker:{index} listens at {tasks.address(index + 1)}",
            f"worker:{index} ended by {number.name}",
        ]


def test_tf_config_says_which_task_this_is(tasks: Tasks) -> None:
    """A spec without hosts has its addresses from the environment, where the chief is worker 0."""
    tasks.write("tasks = 1", "tasks = 2")
    cluster = {"ps": [tasks.address(0)], "chief": [tasks.address(1)], "worker": [tasks.address(2)]}
    text = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    server = tasks.start("serve", str(tasks.spec), TF_CONFIG=text)
    assert server.until("listens") == f"worker:1 listens at {tasks.address(2)}"
    assert listening(server.pid) == {tasks.address(2)}


def test_an_address_that_others_reach_is_warned_of(tasks: Tasks) -> None:
    """A host of the network is listened at, and nowhere else; it is said what that means."""
    host = own_address()
    tasks.write(f'hosts = ["{host}:{tasks.ports[0]}"]')
    server = tasks.serve("ps:0")
    assert server.until("listens at", 60).startswith("warning[TFD767]: the server of `ps:0` listens at")
    assert server.until("ps:0 listens") == f"ps:0 listens at {host}:{tasks.ports[0]}"
    assert listening(server.pid) == {f"{host}:{tasks.ports[0]}"}


def own_address() -> str:
    """Return an address of this machine that is not the loopback's; skip where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no network")
        return str(trial.getsockname()[0])


def test_two_tasks_on_one_port(tasks: Tasks) -> None:
    """The second says who has the port, and leaves the first alone."""
    first = tasks.serve("ps:0")
    first.until("listens")
    taken = {"ps": [tasks.address(1)], "worker": [tasks.address(0), tasks.address(2)]}
    text = json.dumps({"cluster": taken, "task": {"type": "worker", "index": 0}})
    second = tasks.start("serve", str(tasks.spec), TF_CONFIG=text)
    assert second.end() == 2
    assert second.lines[0] == (
        f"error[TFD762]: the server of `worker:0` cannot listen at {tasks.address(0)}: "
        "`ps:0` of a cluster has the port"
    )
    assert isinstance(ask(tasks.address(0), 10), Answer)


def test_the_environment_is_never_shown(tasks: Tasks) -> None:
    """A TF_CONFIG that cannot be read is refused without a word of what it holds, with a traceback too."""
    server = tasks.serve("ps:0", "--debug", TF_CONFIG='{"cluster": {"ps": [s3cret')
    assert server.end() == 2
    assert "error[TFD760]: TF_CONFIG is not JSON" in server.text
    assert "s3cret" not in server.text
