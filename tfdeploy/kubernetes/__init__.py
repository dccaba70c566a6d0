"""Kubernetes manifests for the tasks of a cluster, written from its spec.

TensorFlow is only needed to forecast the memory that pods ask for.

`manifests(deployment)` gives them, `to_yaml` their text. The kind `Job` makes an indexed Job for each job of
the spec behind a headless Service, and says in TF_CONFIG where everything is; `TrainJob` makes a TrainJob of
Kubeflow Trainer with a runtime of its own, which is a set of the same Jobs; `TFJob`, for the operator before
that, makes a TFJob, in whose pods that operator sets TF_CONFIG.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfdeploy.kubernetes.deployment import Deployment, default_name, label_of
from tfdeploy.kubernetes.resources import (
    Manifest,
    client_job,
    config_map,
    indexed_job,
    named_object,
    tfjob,
    to_yaml,
    training_runtime,
)

__all__ = ["Deployment", "Manifest", "default_name", "manifests", "to_yaml"]


def manifests(deployment: Deployment) -> Mapping[str, Manifest]:
    """Return every manifest of a run by a name for its file, in the order in which they are to be applied."""
    found = {"spec": config_map(deployment), "network-policy": named_object(deployment, "network-policy")}
    if deployment.kind == "TrainJob":
        found["training-runtime"] = training_runtime(deployment)
        return {**found, "trainjob": named_object(deployment, "trainjob")}
    if deployment.kind == "TFJob":
        found["tfjob"] = tfjob(deployment)
    else:
        found["service"] = named_object(deployment, "service")
        for job in deployment.jobs:
            found[f"job-{label_of(job.name)}"] = indexed_job(deployment, job)
    if deployment.has_client:
        found["job-client"] = client_job(deployment)
    return found
