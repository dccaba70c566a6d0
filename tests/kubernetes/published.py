"""Holding manifests to the schemas that Kubernetes and Kubeflow publish, as packages carry them."""

from __future__ import annotations

from typing import Any

import kubernetes.client
import kubernetes_validate
from kubeflow import training

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
    for version in VERSIONS:
        kubernetes_validate.validate(manifest, version, strict=True)


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
