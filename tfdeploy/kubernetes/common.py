"""What both kinds of manifests have: labels, the spec as a ConfigMap, the pods, and who may reach them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from grammar.unparse import unparse
from tfdeploy.kubernetes.deployment import DATA_FOLDER, RUNS_FOLDER, SPEC_FOLDER, Deployment
from tfdeploy.runtime.membership.secret import VARIABLE as SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Manifest: TypeAlias = dict[str, Any]
"""An object of Kubernetes as its API takes it."""

CONTAINER = "tensorflow"
"""The name that the training operator looks for."""
USER = 1000
"""Whom containers run as; volumes are made writable for the group of the same number."""


def labels(deployment: Deployment, component: str | None = None) -> dict[str, str]:
    """Return the labels of a run, or of one job of it.

    Args:
        deployment: The run that is deployed.
        component: The name of a job as a label; None for the labels of the whole run.
    """
    found = {"app.kubernetes.io/name": "tfdeploy", "app.kubernetes.io/instance": deployment.name}
    return found if component is None else {**found, "app.kubernetes.io/component": component}


def metadata(deployment: Deployment, name: str, component: str | None = None) -> Manifest:
    """Return the metadata of an object of the run.

    Args:
        deployment: The run.
        name: The name of the object.
        component: The job of the tasks that the object is for, or None if it is for all.
    """
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
    """Return the arguments of `tfdeploy` that run command `name` on the deployed spec.

    Args:
        deployment: The run that is deployed, whose flags come last.
        name: The command, such as `serve`.
        *options: The options of the command.
    """
    return [name, f"{SPEC_FOLDER}/{deployment.spec_file}", *options, *deployment.flags]


def task_command(deployment: Deployment, name: str, *options: str) -> list[str]:
    """Return the arguments that run a task with a server of its own.

    A pod may start before its name can be looked up. The policy of the network keeps others away from it.

    Args:
        deployment: The run that is deployed.
        name: The command, `serve` or `compile-and-run`.
        *options: The options of the command.
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
    fields: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return the template of a pod that runs `tfdeploy`.

    Args:
        deployment: The run that is deployed.
        component: The label of the pod's job.
        arguments: The arguments of `tfdeploy`.
        environment: Further environment variables, as Kubernetes writes them.
        port: The name of the port at which its server listens; None if it has no server.
        gpus: The number of GPUs that the pod asks for.
        fields: More fields of the pod's own specification.
    """
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
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
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
