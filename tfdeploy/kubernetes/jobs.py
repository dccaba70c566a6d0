"""Plain Kubernetes: an indexed Job for each job of the spec, pods that are found by a headless Service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tfdeploy.kubernetes.common import CONTAINER, Manifest, command, labels, metadata, pod, task_command
from tfdeploy.kubernetes.deployment import CLIENT
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.membership.tf_config import VARIABLE, to_tf_config

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.kubernetes.deployment import Deployment

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
    """Return the Job of all tasks of `job`; the pod of task k bears the index k.

    Args:
        deployment: The run that is deployed.
        job: The job of the spec.
    """
    place = f"{job.name}:$({INDEX})"
    name = "serve" if deployment.serves(job) else "compile-and-run"
    template = pod(
        deployment,
        deployment.label(job.name),
        task_command(deployment, name, "--task", place),
        [_index(), {"name": VARIABLE, "value": _tf_config(deployment, job)}],
        port="grpc",
        gpus=job.gpu,
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
        fields={"restartPolicy": "Never"},
    )
    return _job(deployment, CLIENT, 1, template, indexed=False)


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
