"""Inputs and splits in the form of the published collection of device placement.

The collection is that of Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators
(NeurIPS 2020). An input has `nodes` with their costs and `edges` with what it costs to move the output of
their source; a split has the nodes of each accelerator and of the CPUs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.search.problem import HOST, Operator, Workload


class InputError(ValueError):
    """Raised if a file is not an input, or a split does not fit its input. The message says what is wrong."""


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file.

    Raises:
        InputError: The file cannot be read, or has no object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: this is no JSON object")
    return content


def workload_of(content: Mapping[str, Any]) -> Workload:
    """Return an input as a workload, whose operators are in the order of the nodes.

    Raises:
        InputError: A field is missing or has a value of another kind, or an edge names a node that is not
            there.
    """
    try:
        nodes = content["nodes"]
        at = {node["id"]: number for number, node in enumerate(nodes)}
        if len(at) != len(nodes):
            raise InputError("two nodes have the same id")
        sends = [0.0] * len(nodes)
        readers: list[dict[int, None]] = [{} for _ in nodes]
        for edge in content["edges"]:
            source = at[edge["sourceId"]]
            sends[source] = max(sends[source], float(edge["cost"]))
            if at[edge["destId"]] != source:
                readers[source][at[edge["destId"]]] = None
        return Workload(
            tuple(
                Operator(
                    str(node.get("name", node["id"])),
                    float(node["fpgaLatency"]),
                    float(node["cpuLatency"]),
                    float(node["size"]),
                    sends[number],
                    tuple(readers[number]),
                    bool(node["supportedOnFpga"]),
                    bool(node["isBackwardNode"]),
                    node.get("colorClass"),
                )
                for number, node in enumerate(nodes)
            ),
            int(content["maxFPGAs"]),
            float(content["maxSizePerFPGA"]),
            int(content["maxCPUs"]) > 0,
        )
    except KeyError as error:
        raise InputError(f"no field or node {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise error if isinstance(error, InputError) else InputError(str(error)) from error


def split_of(content: Mapping[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """Return a split: the nodes of each accelerator, and of the CPUs as one device.

    Args:
        content: The input.
        places: The accelerator of each node, or `HOST`.
    """
    ids: dict[int, list[Any]] = {device: [] for device in (*range(int(content["maxFPGAs"])), HOST)}
    for node, place in zip(content["nodes"], places, strict=True):
        ids[place].append(node["id"])
    host = ids.pop(HOST)
    return {"fpgas": [{"nodes": nodes} for nodes in ids.values()], "cpus": [{"nodes": host}]}


def places_of(content: Mapping[str, Any], split: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the accelerator of each node in a split, or `HOST`.

    A backward node that is not in the split goes with its color class, as in the experts' splits.

    Raises:
        InputError: A node is in the split twice, or not at all, or is not in the input.
    """
    nodes = content["nodes"]
    found: dict[Any, int] = {}
    devices = [*enumerate(split["fpgas"]), *((HOST, device) for device in split["cpus"])]
    for place, device in devices:
        for each in device["nodes"]:
            if each in found:
                raise InputError(f"node {each} is there twice")
            found[each] = place
    unknown = found.keys() - {node["id"] for node in nodes}
    if unknown:
        raise InputError(f"the input has no node {min(unknown)}")
    of_class = {node.get("colorClass"): found[node["id"]] for node in nodes if node["id"] in found}
    places = []
    for node in nodes:
        place = found.get(node["id"])
        if place is None and node["isBackwardNode"]:
            place = of_class.get(node.get("colorClass"))
        if place is None:
            raise InputError(f"node {node['id']} is on no device")
        places.append(place)
    return tuple(places)
