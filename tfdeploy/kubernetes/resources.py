"""The objects of Kubernetes for a run, which `manifests.yaml` describes, and their text."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dsl.ir.place import PARAMETER_SERVER
from grammar.unparse import unparse
from tfdeploy.kubernetes.deployment import CLIENT, RUNS_FOLDER, SPEC_FOLDER, Deployment, label_of
from tfdeploy.runtime.membership.addresses import VARIABLE, Task, to_tf_config
from tfdeploy.runtime.membership.secret import VARIABLE as SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yaml import SafeDumper, ScalarNode

    from dsl import ir


Manifest: TypeAlias = dict[str, Any]
"""An object of Kubernetes as its API takes it."""

TO_START = 600
"""The seconds that a task may take until its server answers; a worker reads its first examples before."""
MIB = 1 << 20
USER = 1000
"""Whom containers run as; volumes are made writable for the group of the same number."""
INDEX = "TASK_INDEX"
"""The variable that holds the number of a task; Kubernetes puts it in place of `$(TASK_INDEX)`."""
RESTARTS = 20
"""How often a task is started again, after which its Job fails."""


@cache
def _templates() -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("manifests.yaml").read_text("utf-8"))
    return found


def _filled(part: Any, values: dict[str, Any]) -> Any:
    if isinstance(part, dict):
        found = {key: _filled(each, values) for key, each in part.items()}
        return {key: each for key, each in found.items() if each is not None}
    if isinstance(part, list):
        return [each for each in (_filled(each, values) for each in part) if each is not None]
    return values[part[1:]] if isinstance(part, str) and part.startswith("$") else part


def made(template: str, **values: Any) -> Manifest:
    """Return what a template describes, filled with values; None leaves out what stands there."""
    found: Manifest = _filled(_templates()[template], values)
    return found


def labels(deployment: Deployment, component: str | None = None) -> dict[str, str]:
    """Return the labels of a run, or of one job of it."""
    found = {"app.kubernetes.io/name": "tfdeploy", "app.kubernetes.io/instance": deployment.name}
    return found if component is None else {**found, "app.kubernetes.io/component": component}


def named_object(
    deployment: Deployment, template: str, name: str = "", component: str | None = None, **values: Any
) -> Manifest:
    """Return an object of the run, by default with the name of the run."""
    metadata = made(
        "metadata",
        name=name or deployment.name,
        namespace=deployment.namespace,
        labels=labels(deployment, component),
    )
    own = {"name": deployment.name, "labels": labels(deployment), "port": deployment.port}
    return made(template, metadata=metadata, **own, **values)


def config_map(deployment: Deployment) -> Manifest:
    """Return the ConfigMap that holds the spec as it is to run."""
    files = {deployment.spec_file: unparse(deployment.deployed_spec)}
    return named_object(deployment, "spec", f"{deployment.name}-spec", files=files)


def command(deployment: Deployment, name: str, *options: str) -> list[str]:
    """Return the arguments of `tfdeploy` that run command `name` on the deployed spec."""
    return [name, f"{SPEC_FOLDER}/{deployment.spec_file}", *options, *deployment.flags]


def task_command(deployment: Deployment, name: str, *options: str) -> list[str]:
    """Return the arguments that run a task with a server of its own.

    A pod may start before its name can be looked up. The policy of the network keeps others away from it.
    """
    return command(deployment, name, *options, "--listen-everywhere")


def pod(
    deployment: Deployment,
    job: str,
    arguments: Sequence[str],
    environment: Sequence[Manifest] = (),
    *,
    port: str | None = None,
    gpus: int = 0,
    restart_policy: str | None = "Never",
    subdomain: str | None = None,
) -> Manifest:
    """Return the template of a pod that runs `tfdeploy` for a job; `port` is the name of its port."""
    asks, memory = ["tfdeploy", *command(deployment, "status", "--own")], deployment.memory.get(job)
    ports = [{"name": port, "containerPort": deployment.port, "protocol": "TCP"}]
    resources = {
        **({"requests": {"memory": f"{-(-memory // MIB)}Mi"}} if memory is not None else {}),
        **({"limits": {"nvidia.com/gpu": gpus}} if gpus else {}),
    }
    own = [
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 a volume of the pod's own
        {"name": SECRET, "value": f"{RUNS_FOLDER}/.{deployment.name}-secret"},  # the first pod makes it
    ]
    start = made("probe", command=asks, seconds=10, failures=TO_START // 10)
    data = deployment.data
    return made(
        "pod",
        labels=labels(deployment, label_of(job)),
        restart_policy=restart_policy,
        subdomain=subdomain,
        user=USER,
        image=deployment.image,
        arguments=list(arguments),
        environment=[*own, *environment],
        ports=ports if port is not None else None,
        startup_probe=start if port is not None else None,
        liveness_probe=made("probe", command=asks, seconds=30, failures=4) if port is not None else None,
        resources=resources or None,
        config=f"{deployment.name}-spec",
        runs=deployment.runs,
        data_mount=made("data-mount") if data is not None else None,
        data_volume=made("data-volume", data=data) if data is not None else None,
    )


def _job(deployment: Deployment, job: str, tasks: int, mode: str, template: Manifest) -> Manifest:
    name, label = deployment.object_name(job), label_of(job)
    given = {"mode": mode, "tasks": tasks, "restarts": RESTARTS * tasks, "pod": template}
    return named_object(deployment, "job", name, label, **given)


def indexed_job(deployment: Deployment, job: ir.Job) -> Manifest:
    """Return the Job of all tasks of `job`; the pod of task k bears the index k."""
    place = f"{job.name}:$({INDEX})"
    name = "serve" if deployment.serves(job) else "compile-and-run"
    path = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    index = {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    config = json.loads(to_tf_config(deployment.cluster, Task(job.name, 0)))
    config["task"]["index"] = f"$({INDEX})"
    template = pod(
        deployment,
        job.name,
        task_command(deployment, name, "--task", place),
        [index, {"name": VARIABLE, "value": json.dumps(config)}],
        port="grpc",
        gpus=job.gpu,
        subdomain=deployment.name,
    )
    return _job(deployment, job.name, job.tasks, "Indexed", template)


def client_job(deployment: Deployment) -> Manifest:
    """Return the Job of the client, which is no task of the cluster that it trains on."""
    config = {"name": VARIABLE, "value": to_tf_config(deployment.cluster, None)}
    template = pod(deployment, CLIENT, command(deployment, "compile-and-run"), [config])
    return _job(deployment, CLIENT, 1, "NonIndexed", template)


def training_runtime(deployment: Deployment) -> Manifest:
    """Return the runtime of a TrainJob: a set of the Jobs of all tasks."""
    trains = next((each for each in deployment.jobs if each.name != PARAMETER_SERVER), deployment.jobs[0])
    found = {label_of(each.name): indexed_job(deployment, each) for each in deployment.jobs}
    if deployment.has_client:
        found[CLIENT] = client_job(deployment)
    own, ancestor = label_of(trains.name), made("ancestor")
    jobs = [
        made("replicated-job", name=name, metadata=ancestor if name == own else None, spec=each["spec"])
        for name, each in found.items()
    ]
    return named_object(deployment, "training-runtime", tasks=trains.tasks, jobs=jobs)


def tfjob(deployment: Deployment) -> Manifest:
    """Return the TFJob of all tasks.

    If workers train, the first of them is the replica `Chief`, with whose end the TFJob ends. If they
    only serve they are all equal, and the TFJob ends when the client has told the servers to.
    """
    replicas: Manifest = {}
    for job in deployment.jobs:
        if deployment.serves(job):
            kind = "PS" if job.name == PARAMETER_SERVER else "Worker"
            replicas[kind] = _replicas(deployment, job, job.tasks, "serve")
        else:
            replicas["Chief"] = _replicas(deployment, job, 1, "compile-and-run")
            if job.tasks > 1:
                replicas["Worker"] = _replicas(deployment, job, job.tasks - 1, "compile-and-run")
    tasks = sum(job.tasks for job in deployment.jobs)
    return named_object(deployment, "tfjob", restarts=RESTARTS * tasks, replicas=replicas)


def _replicas(deployment: Deployment, job: ir.Job, count: int, name: str) -> Manifest:
    """Return replicas, whose port the operator finds by its name."""
    arguments = task_command(deployment, name)
    template = pod(deployment, job.name, arguments, port="tfjob-port", gpus=job.gpu, restart_policy=None)
    return made("replicas", count=count, pod=template)


WIDTH = 1 << 20
"""No text is folded: one of JSON reads better on a line of its own."""


def to_yaml(manifests: Iterable[Manifest]) -> str:
    """Return manifests as the documents of one YAML file, texts of several lines as they are."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes what occurs twice twice: references between parts are hard to read."""

        def ignore_aliases(self, _: object) -> bool:
            """Answer that nothing is written as a reference."""
            return True

    Dumper.add_representer(str, _text)
    text: str = yaml.dump_all(manifests, Dumper=Dumper, sort_keys=False, explicit_start=True, width=WIDTH)
    return text


def _text(dumper: SafeDumper, text: str) -> ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)
