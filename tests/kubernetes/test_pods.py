"""What the pods of a run are told to do trains: here as processes, with loopback in place of their names."""

import json
import os
import re
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests import forked
from tests.folders import ROOT

DATA = "a,b,c,d,label\n" + "".join(f"0.{n},0.2,0.3,0.4,{n % 2}\n" for n in range(8))


@frozen
class Pod:
    """A pod: the arguments of `tfdeploy`, and the TF_CONFIG and the file of the secret that it finds."""

    name: str
    arguments: list[str]
    tf_config: str
    secret: str


def of_jobs(manifests: dict[tuple[str, str], Any]) -> list[Pod]:
    """Return the pods that Kubernetes makes of Jobs."""
    found = []
    for (kind, name), manifest in manifests.items():
        if kind == "Job":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            config = of_environment(container, "TF_CONFIG")
            for index in range(manifest["spec"]["completions"]):
                texts = [each.replace("$(TASK_INDEX)", str(index)) for each in [config, *container["args"]]]
                secret = of_environment(container, "TFDEPLOY_SECRET_FILE")
                found.append(Pod(f"{name}-{index}.my-digits:2222", texts[1:], texts[0], secret))
    return found


def of_environment(container: dict[str, Any], name: str) -> str:
    """Return a variable of a container's environment."""
    (found,) = (str(each["value"]) for each in container["env"] if each["name"] == name)
    return found


def of_tfjob(manifests: dict[tuple[str, str], Any]) -> list[Pod]:
    """Return the pods that the training operator makes of a TFJob."""
    replicas = manifests["TFJob", "my-digits"]["spec"]["tfReplicaSpecs"]
    cluster = {
        kind.lower(): [f"my-digits-{kind.lower()}-{index}.team.svc:2222" for index in range(each["replicas"])]
        for kind, each in replicas.items()
    }
    found = []
    for kind, each in replicas.items():
        (container,) = each["template"]["spec"]["containers"]
        for index, name in enumerate(cluster[kind.lower()]):
            task = {"type": kind.lower(), "index": index}
            config = {"cluster": cluster, "task": task, "environment": "cloud"}
            secret = of_environment(container, "TFDEPLOY_SECRET_FILE")
            found.append(Pod(name, container["args"], json.dumps(config), secret))
    return found


class Node:
    """A machine that runs pods: folders for volumes, and a port of loopback for each name."""

    def __init__(self, folder: Path, pods: list[Pod], spec: str) -> None:
        self.folder = folder
        self.pods = pods
        sockets = {pod.name: socket.create_server(("127.0.0.1", 0)) for pod in pods}
        self.names = {name: f"127.0.0.1:{each.getsockname()[1]}" for name, each in sockets.items()}
        for each in sockets.values():
            each.close()
        for mount in ("spec", "data", "runs"):
            (folder / mount).mkdir()
        (folder / "data" / "data").mkdir()
        (folder / "data" / "data" / "train.csv").write_text(DATA)
        (folder / "spec" / "my-digits.tfdeploy").write_text(self.here(spec))

    def here(self, text: str) -> str:
        """Return a text with names and folders of this machine."""
        for name, address in self.names.items():
            text = text.replace(name, address)
        return re.sub(r"(?<!\w)/(spec|data|runs)/", rf"{self.folder}/\1/", text)

    def run(self) -> dict[str, int | None]:
        """Run all pods until they have ended or one has failed; return their exit codes."""
        with ExitStack() as stack:
            processes = {}
            for pod in self.pods:
                env = {**os.environ, "TF_CONFIG": self.here(pod.tf_config), "PYTHONPATH": str(ROOT)}
                env["TFDEPLOY_SECRET_FILE"] = self.here(pod.secret)
                command = [sys.executable, "-m", "tfdeploy", *map(self.here, pod.arguments)]
                log = stack.enter_context((self.folder / f"{pod.name}.log").open("w"))
                process = forked.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log)
                stack.callback(process.wait)
                stack.callback(process.kill)  # before the wait, as the last in goes first
                processes[pod.name] = process
            until = time.monotonic() + 240
            while time.monotonic() < until:
                ended = {name: process.poll() for name, process in processes.items()}
                if None not in ended.values() or any(ended.values()):
                    break
                time.sleep(0.1)
            return ended

    def logs(self) -> str:
        """Return what the pods have printed."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "mode"), [("Job", "sync"), ("TFJob", "async")])
def test_pods_train_and_end(kind: str, mode: str, export: Any, tmp_path: Path) -> None:
    """A client with servers in Jobs, and a chief with a worker and a server in a TFJob, all end well."""
    jobs = '  job "ps" { tasks = 1 }\n  job "worker" { tasks = 2 }'
    manifests = export.manifests("--kind", kind, mode=mode, jobs=jobs)
    pods = of_jobs(manifests) if kind == "Job" else of_tfjob(manifests)
    spec = manifests["ConfigMap", "my-digits-spec"]["data"]["my-digits.tfdeploy"]
    node = Node(tmp_path, pods, spec)
    ended = node.run()
    assert len(ended) == (4 if kind == "Job" else 3)
    assert set(ended.values()) == {0}, node.logs()
    result = json.loads((tmp_path / "runs" / "my-digits" / "result.json").read_text())
    assert (result["status"], result["steps"]) == ("finished", 4)
    assert (tmp_path / "runs" / ".my-digits-secret").stat().st_mode & 0o777 == 0o600
