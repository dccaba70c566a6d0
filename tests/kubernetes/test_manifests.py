"""`export --kubernetes`: every task of the spec's cluster as a pod that knows who it is."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import grammar
import tfdeploy
from tests.folders import ROOT
from tests.kubernetes.conftest import CSV, SPEC
from tests.kubernetes.published import hold
from tfdeploy.kubernetes import Deployment, to_yaml
from tfdeploy.kubernetes import manifests as manifests_of
from tfdeploy.kubernetes.deployment import Kind
from tfdeploy.kubernetes.memory import requests_of
from tfdeploy.runtime.membership.addresses import Task, read_tf_config

RUN = {"app.kubernetes.io/name": "tfdeploy", "app.kubernetes.io/instance": "my-digits"}
MIB, GIB = 1 << 20, 1 << 30
CPUS = '  job "ps" { tasks = 2 }\n  job "worker" { tasks = 3 }'
LARGE_OPTIMIZER = "SGD(0.1, momentum = 0.9)"
Container = Callable[[dict[str, Any]], dict[str, Any]]


def pods(manifests: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the templates of all pods."""
    found = [each["spec"]["template"] for (kind, _), each in manifests.items() if kind == "Job"]
    for (kind, _), each in manifests.items():
        if kind == "TFJob":
            found += [replica["template"] for replica in each["spec"]["tfReplicaSpecs"].values()]
    return found


@pytest.mark.family(every=2)
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("kind", ["Job", "TFJob"])
def test_manifests_are_of_the_published_schemas(kind: str, mode: str, export: Any) -> None:
    """All manifests, with every option, hold to the strict schemas of an older and the newest Kubernetes."""
    options = (
        "--kind",
        kind,
        "--data",
        "digits",
        "--namespace",
        "team-a",
        "--name",
        "run1",
        "--port",
        "4000",
    )
    manifests = export.manifests(*options, mode=mode)
    jobs = {("Job", f"run1-{job}") for job in ("ps", "worker")} | {("Service", "run1")}
    client = {("Job", "run1-client")} if mode == "sync" else set()
    assert set(manifests) == {("ConfigMap", "run1-spec"), ("NetworkPolicy", "run1")} | client | (
        jobs if kind == "Job" else {("TFJob", "run1")}
    )
    for each in manifests.values():
        hold(each)
        assert each["metadata"]["namespace"] == "team-a"


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Job", "spec.completions", "two"),
        ("Job", "spec.template.spec.containers.0.ports.0.containerPort", "http"),
        ("Job", "spec.template.spec.servicAccount", "x"),
        ("NetworkPolicy", "spec.ingress.0.form", []),
        ("Service", "spec.ports.0.port", None),
        ("TFJob", "spec.tfReplicaSpecs.PS.replicas", "2"),
        ("TFJob", "spec.tfReplicaSpecs.Server", {"replicas": 1}),
        ("TFJob", "spec.tfReplicaSpecs.PS.template.spec.containers.0.imag", "x"),
        ("TFJob", "spec.runPolicies", {}),
    ],
)
def test_the_published_schemas_refuse_what_is_wrong(kind: str, path: str, value: Any, export: Any) -> None:
    """A value of another type, or a field that there is not, is noticed in every kind of manifest."""
    found = export.manifests("--kind", "TFJob" if kind == "TFJob" else "Job")
    manifest = copy.deepcopy(next(each for (name, _), each in found.items() if name == kind))
    hold(manifest)
    *parts, last = path.split(".")
    at: Any = manifest
    for part in parts:
        at = at[int(part)] if isinstance(at, list) else at[part]
    at[last] = value
    with pytest.raises((ValueError, kubernetes_validate.ValidationError)):
        hold(manifest)


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_every_pod_of_a_job_knows_its_task(mode: str, export: Any, container_of: Container) -> None:
    """With its number put in, a pod's TF_CONFIG and arguments name its task, and where all others are."""
    manifests = export.manifests(mode=mode)
    spec = grammar.read("d", text=manifests["ConfigMap", "my-digits-spec"]["data"]["my-digits.tfdeploy"]).spec
    assert spec is not None
    service = manifests["Service", "my-digits"]
    assert (service["spec"]["clusterIP"], service["spec"]["selector"]) == ("None", RUN)
    for job, tasks in {"ps": 2, "worker": 3}.items():
        manifest = manifests["Job", f"my-digits-{job}"]
        assert (manifest["spec"]["completionMode"], manifest["spec"]["completions"]) == ("Indexed", tasks)
        assert manifest["spec"]["parallelism"] == tasks
        assert manifest["spec"]["template"]["spec"]["subdomain"] == "my-digits"
        container = container_of(manifest)
        names = [each["name"] for each in container["env"]]
        assert names.index("TASK_INDEX") < names.index("TF_CONFIG")  # what is put in must stand before
        value = next(each["value"] for each in container["env"] if each["name"] == "TF_CONFIG")
        command = "compile-and-run" if (job, mode) == ("worker", "async") else "serve"
        for index in range(tasks):
            given = read_tf_config(value.replace("$(TASK_INDEX)", str(index)), spec.devices.jobs)
            assert given is not None
            assert given.task == Task(job, index)
            assert given.cluster.address(Task(job, index)) == f"my-digits-{job}-{index}.my-digits:2222"
            filled = [each.replace("$(TASK_INDEX)", str(index)) for each in container["args"]]
            options = ["--task", f"{job}:{index}", "--listen-everywhere"]
            assert filled == [command, "/spec/my-digits.tfdeploy", *options]


@pytest.mark.parametrize(("kind", "behind"), [("Job", ".my-digits"), ("TFJob", "")])
def test_the_client_of_one_graph_is_no_task(
    kind: str, behind: str, export: Any, container_of: Container
) -> None:
    """With `replication = in_graph` a Job of one pod trains on all tasks, and has neither port nor GPU."""
    client = export.manifests("--kind", kind, mode="sync")["Job", "my-digits-client"]
    container = container_of(client)
    assert container["args"] == ["compile-and-run", "/spec/my-digits.tfdeploy"]
    config = json.loads(next(each["value"] for each in container["env"] if each["name"] == "TF_CONFIG"))
    assert config == {
        "cluster": {
            "ps": [f"my-digits-ps-{index}{behind}:2222" for index in range(2)],
            "worker": [f"my-digits-worker-{index}{behind}:2222" for index in range(3)],
        }
    }
    assert "ports" not in container
    assert container["resources"] == {"requests": {"memory": "2048Mi"}}
    assert client["spec"]["completions"] == 1


def test_a_tfjob_of_workers_has_a_chief(export: Any, container_of: Container) -> None:
    """Workers that train are a chief and the others; the operator says who each is, so no argument does."""
    job = export.manifests("--kind", "TFJob")["TFJob", "my-digits"]
    found = {
        kind: (
            each["replicas"],
            each["restartPolicy"],
            container_of(each)["args"][0],
            len(container_of(each)["args"]),
        )
        for kind, each in job["spec"]["tfReplicaSpecs"].items()
    }
    assert found == {
        "PS": (2, "ExitCode", "serve", 3),
        "Chief": (1, "ExitCode", "compile-and-run", 3),
        "Worker": (2, "ExitCode", "compile-and-run", 3),
    }
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    for each in job["spec"]["tfReplicaSpecs"].values():
        container = container_of(each)
        assert (container["name"], container["ports"][0]["name"]) == ("tensorflow", "tfjob-port")
        assert [variable["name"] for variable in container["env"]] == ["HOME", "TFDEPLOY_SECRET_FILE"]


def test_what_the_operator_sets_names_the_tasks_of_the_spec(export: Any) -> None:
    """TF_CONFIG as the training operator makes it of the replicas gives every task of the spec to one pod."""
    manifests = export.manifests("--kind", "TFJob")
    replicas = manifests["TFJob", "my-digits"]["spec"]["tfReplicaSpecs"]
    spec = grammar.read("d", text=manifests["ConfigMap", "my-digits-spec"]["data"]["my-digits.tfdeploy"]).spec
    assert spec is not None
    counts = {kind.lower(): each["replicas"] for kind, each in replicas.items()}
    cluster = {
        kind: [f"my-digits-{kind}-{index}.default.svc:2222" for index in range(count)]
        for kind, count in counts.items()
    }
    found = []
    for kind, count in counts.items():
        for index in range(count):
            task = {"type": kind, "index": index}
            text = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
            given = read_tf_config(text, spec.devices.jobs)
            assert given is not None
            assert given.task is not None
            assert given.cluster.address(given.task) == cluster[kind][index]
            found.append(given.task.ref)
    assert sorted(found) == ["ps:0", "ps:1", "worker:0", "worker:1", "worker:2"]


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("kind", ["Job", "TFJob"])
def test_pods_have_no_more_rights_than_they_need(kind: str, mode: str, export: Any) -> None:
    """Pods are what the restricted standard of Kubernetes asks for, and know nothing of the API server."""
    found = pods(export.manifests("--kind", kind, "--data", "digits", mode=mode))
    assert len(found) == {("Job", "async"): 2, ("TFJob", "async"): 3}.get((kind, mode), 3)
    for pod in found:
        spec = pod["spec"]
        (container,) = spec["containers"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        writable = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
        assert writable == {"/runs", "/tmp"}  # noqa: S108 a volume of the pod's own


@pytest.mark.parametrize("kind", ["Job", "TFJob"])
def test_only_pods_of_the_run_reach_its_ports(kind: str, export: Any) -> None:
    """One rule holds for every pod of the run, and lets in pods of the run, at the servers' port alone."""
    manifests = export.manifests("--kind", kind, "--port", "4000", mode="sync")
    run = {"podSelector": {"matchLabels": RUN}}
    assert manifests["NetworkPolicy", "my-digits"]["spec"] == {
        **run,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [run], "ports": [{"protocol": "TCP", "port": 4000}]}],
    }
    for pod in pods(manifests):
        assert pod["metadata"]["labels"].items() >= RUN.items()
        for port in pod["spec"]["containers"][0].get("ports", []):
            assert port["containerPort"] == 4000


def test_faults_of_the_spec_are_not_tried_again(export: Any) -> None:
    """A Job fails at once by exit codes 1 and 2, and starts again what a signal or a lost node has ended."""
    for (kind, _), manifest in export.manifests(mode="sync").items():
        if kind == "Job":
            assert manifest["spec"]["template"]["spec"]["restartPolicy"] == "Never"
            assert manifest["spec"]["backoffLimit"] == 20 * manifest["spec"]["completions"]
            assert manifest["spec"]["podFailurePolicy"]["rules"] == [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": "tensorflow", "operator": "In", "values": [1, 2]},
                },
            ]


def test_gpus_are_those_of_each_task(export: Any, container_of: Container) -> None:
    """A task asks for as many GPUs as its job declares, and for none where that is none."""
    manifests = export.manifests()
    found = {job: container_of(manifests["Job", f"my-digits-{job}"])["resources"] for job in ("worker", "ps")}
    assert found == {
        "worker": {"requests": {"memory": "2048Mi"}, "limits": {"nvidia.com/gpu": 2}},
        "ps": {"requests": {"memory": "2048Mi"}},
    }


@pytest.mark.family(every=3)
@pytest.mark.parametrize("kind", ["Job", "TrainJob", "TFJob"])
def test_pods_ask_for_the_memory_of_the_forecast(kind: Kind) -> None:
    """The weights and slots of a large layer are on a server, and a client has neither; TensorFlow has 1 GiB.

    There are 2 servers, 3 workers, and a client: the layer's 64 MiB of weights and as much of momentum are on
    the first server, which also gets the gradient of each worker.
    """
    large = (
        SPEC.replace("[4]", "[4096]").replace("Dense(2", "Dense(4096").replace("SGD(0.1)", LARGE_OPTIMIZER)
    )
    spec = grammar.read("large.tfdeploy", text=large.format(data=CSV, jobs=CPUS, mode="sync", train="")).spec
    placement = tfdeploy.map_placement(spec)
    needed = requests_of(spec, placement)
    of_server = next(each.memory_bytes for each in placement.devices if each.ref == "ps[0].cpu[0]")
    assert of_server > 4 * 64 * MIB
    assert needed["ps"] == GIB + round(1.25 * of_server)
    assert needed["client"] == GIB < needed["worker"] < needed["ps"]
    deployed = Deployment(spec, image="i", name="n", runs="r", kind=kind, memory=needed)
    asked = re.findall(r"memory: (\d+)Mi", to_yaml(manifests_of(deployed).values()))
    expected = [needed["ps"], needed["worker"], needed["client"]]
    assert [int(each) for each in asked] == [-(-each // MIB) for each in expected]


def test_a_size_is_one_of_the_language(export: Any) -> None:
    """What is none is refused before anything is written."""
    for wrong in ("3", "3s", "GiB", "-1GiB", "3 GiB", "", "0.0B"):
        assert f"{wrong!r} is not a size" in str(export.run("--memory", wrong).exception)


def test_the_spec_is_the_one_that_was_given(export: Any, container_of: Container) -> None:
    """The ConfigMap has the spec with overrides, with data and runs where the volumes are, without hosts."""
    hosts = '  job "ps" { hosts = ["a:1", "b:1"] }\n  job "worker" { hosts = ["c:1", "d:1", "e:1"] }'
    paths = ["../up/a.csv", "b/c.csv", "/abs/d.csv"]
    splits = [f'csv("{path}", x = "[abcd]", label = "label")' for path in paths]
    data = f"{splits[0]}\n  validation = {splits[1]}\n  test = {splits[2]}"
    train = ', directory = "runs/x", weights = "start.keras"'
    found = export.manifests("--set", "train.steps=9", "--data", "digits", jobs=hosts, data=data, train=train)
    manifest = found["ConfigMap", "my-digits-spec"]
    spec = grammar.read("d", text=manifest["data"]["my-digits.tfdeploy"]).spec
    assert spec is not None
    assert [(job.name, job.tasks, job.hosts) for job in spec.devices.jobs] == [
        ("ps", 2, ()),
        ("worker", 3, ()),
    ]
    assert spec.data is not None
    read = [split.source.args for split in (spec.data.train, spec.data.validation, spec.data.test) if split]
    assert read == [("/data/up/a.csv",), ("/data/b/c.csv",), ("/abs/d.csv",)]
    train_block = spec.train
    assert (train_block.steps, train_block.directory, train_block.weights) == (
        9,
        "/runs/runs/x",
        "/data/start.keras",
    )
    mounts = {each["name"]: each for each in container_of(found["Job", "my-digits-worker"])["volumeMounts"]}
    assert (mounts["data"]["mountPath"], mounts["data"]["readOnly"]) == ("/data", True)


def test_python_is_allowed_where_it_was(export: Any, container_of: Container) -> None:
    """With `--allow-python` every pod is started with it."""
    manifests = export.manifests("--allow-python", data='python("data:examples")')
    for job in ("ps", "worker"):
        assert container_of(manifests["Job", f"my-digits-{job}"])["args"][-1] == "--allow-python"


def test_a_folder_gets_a_file_for_each_manifest(export: Any, tmp_path: Path) -> None:
    """`--out DIR` makes a folder of what standard output would have had, and touches none that is there."""
    folder = tmp_path / "manifests"
    done = export.run("--out", str(folder), mode="sync")
    assert (done.return_value, done.stdout) == (0, f"{folder}\n")
    assert sorted(path.name for path in folder.iterdir()) == [
        "job-client.yaml",
        "job-ps.yaml",
        "job-worker.yaml",
        "network-policy.yaml",
        "service.yaml",
        "spec.yaml",
    ]
    written = [yaml.safe_load(path.read_text()) for path in folder.iterdir()]
    there = {(each["kind"], each["metadata"]["name"]): each for each in written}
    assert there == export.manifests(mode="sync")
    again = export.run("--out", str(folder))
    assert "is there already" in str(again.exception)


def test_texts_survive_yaml(export: Any) -> None:
    """The spec is readable line by line in the YAML, and TF_CONFIG stands on one line."""
    text = export.run().stdout
    assert "  my-digits.tfdeploy: |\n    tfdeploy = 1\n" in text
    assert text.count('\n          value: \'{"cluster": {') == 2
    assert "&id" not in text


def test_no_tensorflow_is_loaded(export: Any) -> None:
    """Writing manifests waits neither for TensorFlow nor for NumPy if the memory is given."""
    path = export.write()
    program = (
        "import sys; from tfdeploy.cli.group import load; "
        f"arguments = [{str(path)!r}, '--kubernetes', '--image', 'i', '--runs', 'r', '--memory', '2GiB']; "
        "load('export').main(arguments, standalone_mode=False); "
        "print('loaded:', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "yaml" in loaded
    assert loaded & {"tensorflow", "keras", "numpy", "rich"} == set()
