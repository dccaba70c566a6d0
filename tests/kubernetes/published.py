"""Holding manifests to the schemas that Kubernetes and Kubeflow publish, as packages carry them."""

from typing import Any

import jsonschema
import kubernetes.client
import kubernetes_validate
from kubeflow import training


def _closed(needed: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(needed), "additionalProperties": False}


_TEXT, _COUNT, _FLAG = (
    {"type": "string", "minLength": 1},
    {"type": "integer", "minimum": 1},
    {"type": "boolean"},
)
_ABOUT = {"type": "object", "required": ["name"]}
_NODES = _closed(numNodes=_COUNT, torch={}, mpi={}, jax={}, xgboost={}, flux={})
_JOB = _closed(
    ("name", "template"),
    name={"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
    groupName=_TEXT,
    replicas=_COUNT,
    dependsOn={},
    template=_closed(("spec",), metadata={"type": "object"}, spec={"type": "object"}),
)
_SET = _closed(
    ("replicatedJobs",),
    replicatedJobs={"type": "array", "minItems": 1, "items": _JOB},
    network=_closed(enableDNSHostnames=_FLAG, subdomain=_TEXT, publishNotReadyAddresses=_FLAG),
    successPolicy={},
    failurePolicy={},
    startupPolicy={},
    coordinator={},
    ttlSecondsAfterFinished={},
    suspend=_FLAG,
    managedBy=_TEXT,
)
_RUNTIME = _closed(
    mlPolicy=_NODES, podGroupPolicy={}, template=_closed(metadata={"type": "object"}, spec=_SET)
)
_REF = _closed(
    ("name",), name=_TEXT, apiGroup=_TEXT, kind={"enum": ["TrainingRuntime", "ClusterTrainingRuntime"]}
)
_TRAINER = _closed(
    image=_TEXT, command={}, args={}, env={}, numNodes=_COUNT, resourcesPerNode={}, numProcPerNode={}
)
_RUN = _closed(
    ("runtimeRef",), runtimeRef=_REF, trainer=_TRAINER, initializer={}, suspend=_FLAG, managedBy=_TEXT
)


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return _closed(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": "trainer.kubeflow.org/v1alpha1"},
        kind={"const": kind},
        metadata=_ABOUT,
        spec=spec,
    )


TRAINER = {
    "TrainJob": _object("TrainJob", _RUN),
    "TrainingRuntime": _object("TrainingRuntime", _RUNTIME),
}
"""What the types of Kubeflow Trainer 2 and of JobSet have, in so far as all of their releases have it.

No package carries these schemas. A Job in a JobSet is held to the schema of Jobs.
"""
VERSIONS = ("1.29", kubernetes_validate.latest_version())
"""The oldest Kubernetes whose schemas have all that is used, and the newest that the package knows."""
REPLICAS = {"Chief", "Master", "PS", "Worker", "Evaluator"}


def hold(manifest: dict[str, Any]) -> None:
    """Raise ValidationError or ValueError where a manifest is not of its published schema, or has more."""
    if manifest["kind"] == "TFJob":
        _build("KubeflowOrgV1TFJob", manifest)
        unknown = set(manifest["spec"]["tfReplicaSpecs"]) - REPLICAS
        if unknown:
            raise ValueError(f"no replicas of a TFJob: {unknown}")
        return
    if manifest["apiVersion"].startswith("trainer.kubeflow.org/"):
        jsonschema.validate(manifest, TRAINER[manifest["kind"]])
        for job in _jobs_of(manifest):
            hold(job)
        return
    for version in VERSIONS:
        kubernetes_validate.validate(manifest, version, strict=True)


def _jobs_of(runtime: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Jobs that the JobSet of a runtime makes, as Jobs of their own."""
    jobs = runtime["spec"].get("template", {}).get("spec", {}).get("replicatedJobs", [])
    about = runtime["metadata"]
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**each["template"].get("metadata", {}), "name": f"{about['name']}-{each['name']}-0"},
            "spec": each["template"]["spec"],
        }
        for each in jobs
    ]


def _build(kind: str, value: Any) -> Any:
    """Make the object that a model of the API describes, which refuses what it does not know or lacks."""
    if kind == "V1PodTemplateSpec":
        named = {**value, "metadata": {**value["metadata"], "name": "template"}}
        hold({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "template"}, "template": named})
        return value
    if kind in {"str", "int", "bool"}:
        if type(value).__name__ != kind:
            raise ValueError(f"{value!r} is no {kind}")
        return value
    if kind.startswith("dict("):
        inner = kind.removeprefix("dict(str, ").removesuffix(")")
        return {key: _build(inner, each) for key, each in value.items()}
    if kind.startswith("list["):
        return [_build(kind.removeprefix("list[").removesuffix("]"), each) for each in value]
    model = getattr(training, kind, None) or getattr(kubernetes.client, kind)
    attributes = {key: name for name, key in model.attribute_map.items()}
    unknown = set(value) - set(attributes)
    if unknown:
        raise ValueError(f"{kind} has no {unknown}")
    parts = {
        attributes[key]: _build(model.openapi_types[attributes[key]], each) for key, each in value.items()
    }
    return model(**parts)
