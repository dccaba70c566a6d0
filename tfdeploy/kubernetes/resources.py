"""The objects of Kubernetes for a run, those that both kinds of manifests have first, and their text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from dsl.ir.place import PARAMETER_SERVER
from grammar.unparse import unparse
from tfdeploy.kubernetes.deployment import CLIENT, DATA_FOLDER, RUNS_FOLDER, SPEC_FOLDER, Deployment
from tfdeploy.runtime.membership.addresses import VARIABLE, Task, to_tf_config
from tfdeploy.runtime.membership.secret import VARIABLE as SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from yaml import SafeDumper, ScalarNode

    from dsl import ir
    from tfdeploy.kubernetes.deployment import Deployment


Manifest: TypeAlias = dict[str, Any]
"""An object of Kubernetes as its API takes it."""

CONTAINER = "tensorflow"
"""The name that the training operator looks for."""
TO_START = 600
"""The seconds that a task may take until its server answers; a worker reads its first examples before."""
PROBE_TIMEOUT = 20
MIB = 1 << 20
TO_END = 120
"""The seconds between SIGTERM and SIGKILL: the chief writes a checkpoint, for which the servers stay."""
USER = 1000
"""Whom containers run as; volumes are made writable for the group of the same number."""


def labels(deployment: Deployment, component: str | None = None) -> dict[str, str]:
    """Return the labels of a run, or of one job of it."""
    found = {"app.kubernetes.io/name": "tfdeploy", "app.kubernetes.io/instance": deployment.name}
    return found if component is None else {**found, "app.kubernetes.io/component": component}


def metadata(deployment: Deployment, name: str, component: str | None = None) -> Manifest:
    """Return the metadata of an object of the run."""
    found: Manifest = {"name": name}
    if deployment.namespace is not None:
        found["namespace"] = deployment.namespace
    return {**found, "labels": labels(deployment, component)}


def config_map(deployment: Deployment) -> Manifest:
    """Return the ConfigMap that holds the spec as it is to run."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(deployment, f"{deployment.name}-spec"),
        "data": {deployment.spec_file: unparse(deployment.deployed_spec)},
    }


def network_policy(deployment: Deployment) -> Manifest:
    """Return the rule that lets pods of the run alone in: TensorFlow's servers ask nobody for a password."""
    run = {"podSelector": {"matchLabels": labels(deployment)}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(deployment, deployment.name),
        "spec": {
            **run,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [run], "ports": [{"protocol": "TCP", "port": deployment.port}]}],
        },
    }


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
    component: str,
    arguments: Sequence[str],
    environment: Sequence[Manifest] = (),
    *,
    port: str | None = None,
    gpus: int = 0,
    memory: int | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return the template of a pod that runs `tfdeploy`."""
    container: Manifest = {
        "name": CONTAINER,
        "image": deployment.image,
        "command": ["tfdeploy"],
        "args": list(arguments),
        "env": [
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 a volume of the pod's own
            {"name": SECRET, "value": f"{RUNS_FOLDER}/.{deployment.name}-secret"},  # the first pod makes it
            *environment,
        ],
    }
    if port is not None:
        container["ports"] = [{"name": port, "containerPort": deployment.port, "protocol": "TCP"}]
        asks = {"exec": {"command": ["tfdeploy", *command(deployment, "status", "--own")]}}
        container["startupProbe"] = {**asks, **_every(10, TO_START // 10)}
        container["livenessProbe"] = {**asks, **_every(30, 4)}
    if gpus or memory is not None:
        container["resources"] = {
            **({"requests": {"memory": f"{-(-memory // MIB)}Mi"}} if memory is not None else {}),
            **({"limits": {"nvidia.com/gpu": gpus}} if gpus else {}),
        }
    container["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts, volumes = _volumes(deployment)
    container["volumeMounts"] = mounts
    return {
        "metadata": {"labels": labels(deployment, component)},
        "spec": {
            **(fields or {}),
            "terminationGracePeriodSeconds": TO_END,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",  # else every start opens the secret to the group
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": volumes,
        },
    }


def _every(seconds: int, failures: int) -> Manifest:
    """Return when a probe is made, and how many may fail in a row."""
    return {"periodSeconds": seconds, "timeoutSeconds": PROBE_TIMEOUT, "failureThreshold": failures}


def _volumes(deployment: Deployment) -> tuple[list[Manifest], list[Manifest]]:
    """Return what a container mounts, and the volumes of its pod.

    Every task has the runs: checkpoints are written by whichever server has the ops that write.
    """
    mounts: list[Manifest] = [
        {"name": "spec", "mountPath": SPEC_FOLDER, "readOnly": True},
        {"name": "runs", "mountPath": RUNS_FOLDER},
        {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 a volume of the pod's own
    ]
    volumes: list[Manifest] = [
        {"name": "spec", "configMap": {"name": f"{deployment.name}-spec"}},
        {"name": "runs", "persistentVolumeClaim": {"claimName": deployment.runs}},
        {"name": "scratch", "emptyDir": {}},
    ]
    if deployment.data is not None:
        mounts.append({"name": "data", "mountPath": DATA_FOLDER, "readOnly": True})
        claim = {"claimName": deployment.data, "readOnly": True}
        volumes.append({"name": "data", "persistentVolumeClaim": claim})
    return mounts, volumes


INDEX = "TASK_INDEX"
"""The variable that holds the number of a task; Kubernetes puts it in place of `$(TASK_INDEX)`."""
RESTARTS = 20
"""How often a task is started again, after which its Job fails."""
PERMANENT_FAULTS = (1, 2)
"""The exit codes of faults that starting again does not mend: those of the spec, and of the tool."""


def headless_service(deployment: Deployment) -> Manifest:
    """Return the Service that gives every pod a name, from before it is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(deployment, deployment.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels(deployment),
            "ports": [{"name": "grpc", "port": deployment.port, "protocol": "TCP"}],
        },
    }


def indexed_job(deployment: Deployment, job: ir.Job) -> Manifest:
    """Return the Job of all tasks of `job`; the pod of task k bears the index k."""
    place = f"{job.name}:$({INDEX})"
    name = "serve" if deployment.serves(job) else "compile-and-run"
    template = pod(
        deployment,
        deployment.label(job.name),
        task_command(deployment, name, "--task", place),
        [_index(), {"name": VARIABLE, "value": _tf_config(deployment, job)}],
        port="grpc",
        gpus=job.gpu,
        memory=deployment.memory.get(job.name),
        fields={"restartPolicy": "Never", "subdomain": deployment.name},
    )
    return _job(deployment, job.name, job.tasks, template, indexed=True)


def client_job(deployment: Deployment) -> Manifest:
    """Return the Job of the client, which is no task of the cluster that it trains on."""
    template = pod(
        deployment,
        CLIENT,
        command(deployment, "compile-and-run"),
        [{"name": VARIABLE, "value": to_tf_config(deployment.cluster, None)}],
        memory=deployment.memory.get(CLIENT),
        fields={"restartPolicy": "Never"},
    )
    return _job(deployment, CLIENT, 1, template, indexed=False)


API = "trainer.kubeflow.org"
VERSION = f"{API}/v1alpha1"
ANCESTOR = {f"{API}/trainjob-ancestor-step": "trainer"}
"""The label of the Job whose tasks the nodes of a TrainJob are."""


def training_runtime(deployment: Deployment) -> Manifest:
    """Return the runtime of a TrainJob: a set of the Jobs of all tasks, which find each other by name."""
    trains = next((each for each in deployment.jobs if each.name != PARAMETER_SERVER), deployment.jobs[0])
    jobs = [
        _replicated(
            deployment.label(each.name), indexed_job(deployment, each), ANCESTOR if each is trains else None
        )
        for each in deployment.jobs
    ]
    if deployment.has_client:
        jobs.append(_replicated(CLIENT, client_job(deployment)))
    return {
        "apiVersion": VERSION,
        "kind": "TrainingRuntime",
        "metadata": metadata(deployment, deployment.name),
        "spec": {
            "mlPolicy": {"numNodes": trains.tasks},
            "template": {
                "spec": {
                    "network": {
                        "enableDNSHostnames": True,
                        "publishNotReadyAddresses": True,
                        "subdomain": deployment.name,
                    },
                    "replicatedJobs": jobs,
                }
            },
        },
    }


def _replicated(name: str, job: Manifest, labelled: dict[str, str] | None = None) -> Manifest:
    """Return a Job as one of those of a JobSet."""
    about = {} if labelled is None else {"metadata": {"labels": labelled}}
    return {"name": name, "replicas": 1, "template": {**about, "spec": job["spec"]}}


def trainjob(deployment: Deployment) -> Manifest:
    """Return the TrainJob that runs the runtime of the same name."""
    return {
        "apiVersion": VERSION,
        "kind": "TrainJob",
        "metadata": metadata(deployment, deployment.name),
        "spec": {
            "runtimeRef": {"apiGroup": API, "kind": "TrainingRuntime", "name": deployment.name},
        },
    }


def _index() -> Manifest:
    path = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    return {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _tf_config(deployment: Deployment, job: ir.Job) -> str:
    """Return TF_CONFIG for every task of a job, its number left to Kubernetes."""
    config = json.loads(to_tf_config(deployment.cluster, Task(job.name, 0)))
    config["task"]["index"] = f"$({INDEX})"
    return json.dumps(config)


def _job(deployment: Deployment, job: str, tasks: int, template: Manifest, *, indexed: bool) -> Manifest:
    label = deployment.label(job)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(deployment, deployment.object_name(job), label),
        "spec": {
            "completionMode": "Indexed" if indexed else "NonIndexed",
            "completions": tasks,
            "parallelism": tasks,
            "backoffLimit": RESTARTS * tasks,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "Ignore",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    },
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": CONTAINER,
                            "operator": "In",
                            "values": list(PERMANENT_FAULTS),
                        },
                    },
                ]
            },
            "template": template,
        },
    }


PORT_NAME = "tfjob-port"
"""The name by which the operator finds the port."""


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
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": metadata(deployment, deployment.name),
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": RESTARTS * tasks},
            "tfReplicaSpecs": replicas,
        },
    }


def _replicas(deployment: Deployment, job: ir.Job, count: int, name: str) -> Manifest:
    """Return replicas that are started again if a signal ended them, not after an error of theirs."""
    template = pod(
        deployment,
        deployment.label(job.name),
        task_command(deployment, name),
        port=PORT_NAME,
        gpus=job.gpu,
        memory=deployment.memory.get(job.name),
    )
    return {"replicas": count, "restartPolicy": "ExitCode", "template": template}


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
