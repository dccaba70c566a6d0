"""Names of the tensors in the examples of a split, as far as they follow from the spec alone."""

from __future__ import annotations

from dsl import ir, schema

_OF_SOURCE = {"images": ("image", "label"), "cifar10": ("image", "label"), "mnist": ("image", "label")}


def tensors_of(source: ir.Call) -> frozenset[str] | None:
    """Return the names of the tensors that a source yields, or None if only reading the source shows them."""
    if source.name in _OF_SOURCE:
        return frozenset(_OF_SOURCE[source.name])
    if source.name == "python" or (source.name == "npz" and not source.kwargs):
        return None
    function = schema.function("source", source.name)
    own = () if function is None else tuple(each.name for each in function.arguments)
    return frozenset(name for name in source.kwargs if name not in own)


def renamed(tensors: frozenset[str], transform: ir.Call) -> frozenset[str]:
    """Return the names of the tensors after a transform.

    Args:
        tensors: The names before it.
        transform: The call of the transform. Only `rename` changes names.
    """
    if transform.name != "rename":
        return tensors
    return (tensors - {str(old) for old in transform.kwargs.values()}) | frozenset(transform.kwargs)


def tensors_of_split(split: ir.Split) -> frozenset[str] | None:
    """Return the names of the tensors after all transforms, or None if only reading the source shows them."""
    tensors = tensors_of(split.source)
    for transform in split.transforms:
        tensors = None if tensors is None else renamed(tensors, transform)
    return tensors
