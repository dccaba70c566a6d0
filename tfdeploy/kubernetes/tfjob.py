"""Kubeflow: a TFJob, in whose pods the training operator sets TF_CONFIG, and gives each a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.ir.place import PARAMETER_SERVER
from tfdeploy.kubernetes.common import Manifest, metadata, pod, task_command
from tfdeploy.kubernetes.jobs import RESTARTS

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.kubernetes.deployment import Deployment

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
    )
    return {"replicas": count, "restartPolicy": "ExitCode", "template": template}
