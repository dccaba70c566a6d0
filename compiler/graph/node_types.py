"""How many tensors nodes take, and the types of those that they make."""

from __future__ import annotations

from typing import Any

from compiler.graph.adapters.tensorflow_private import op_definition


def count_inputs(node: Any) -> int:
    """Return the number of a node's data inputs, which come before what it waits for."""
    return sum(not each.startswith("^") for each in node.input)


def output_types(node: Any) -> list[int]:
    """Return the types (numbers of DataType) of a node's outputs."""
    types: list[int] = []
    for each in op_definition(node.op).output_arg:
        if each.type_list_attr:
            types += _attribute(node, each.type_list_attr).list.type
        else:
            times = _attribute(node, each.number_attr).i if each.number_attr else 1
            types += [_attribute(node, each.type_attr).type if each.type_attr else each.type] * times
    return types


def _attribute(node: Any, name: str) -> Any:
    """Return an attribute of a node, or its default."""
    if name in node.attr:
        return node.attr[name]
    return next(each.default_value for each in op_definition(node.op).attr if each.name == name)
