"""The names of the tensors that the examples of a split are made of, as far as the spec tells."""

from __future__ import annotations

from dsl import ir, schema

_OF_SOURCE = {"images": ("image", "label"), "cifar10": ("image", "label"), "mnist": ("image", "label")}


def tensors_of(source: ir.Call) -> frozenset[str] | None:
    """Return the names of the tensors that a source gives; None where only reading it can tell."""
    if source.name in _OF_SOURCE:
        return frozenset(_OF_SOURCE[source.name])
    if source.name == "python" or (source.name == "npz" and not source.kwargs):
        return None
    function = schema.function("source", source.name)
    own = () if function is None else tuple(each.name for each in function.arguments)
    return frozenset(name for name in source.kwargs if name not in own)


def renamed(tensors: frozenset[str], transform: ir.Call) -> frozenset[str]:
    """Return the names of the tensors after a transform."""
    if transform.name != "rename":
        return tensors
    return (tensors - {str(old) for old in transform.kwargs.values()}) | frozenset(transform.kwargs)


def tensors_of_split(split: ir.Split) -> frozenset[str] | None:
    """Return the names of the tensors after all transforms; None where only reading the source can tell."""
    tensors = tensors_of(split.source)
    for transform in split.transforms:
        tensors = None if tensors is None else renamed(tensors, transform)
    return tensors
