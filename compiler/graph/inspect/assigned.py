"""The device on which every op really ran, found in the partition graphs of a step.

Most ops are in a partition under their own names. Others are found by what replaced them: an op that
TensorFlow fused with another (oneDNN makes one op of a convolution and its bias), a loop or call that it
replaced by the ops of its body, and a small constant that it copied to every device that uses it. If nothing
shows what became of an op, it has no device here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from attrs import define, field

_RECEIVE = {"_Recv", "_HostRecv"}
_SEND = {"_Send", "_HostSend"}
CONSTANT = "Const"


def read_assigned(graph: tf.Graph, metadata: Any) -> dict[str, str]:
    """Return the full name of the device on which each op ran, by op name.

    Args:
        graph: The graph.
        metadata: The RunMetadata of a step. Ops that it does not show are left out.
    """
    nodes = [node for partition in metadata.partition_graphs for node in partition.node]
    types = {op.name: op.type for op in graph.get_operations()}
    return _Reader(types, graph, {node.name: node for node in nodes}).read()


@define
class _Reader:
    types: dict[str, str] = field(repr=False)  # ops of the graph by name
    graph: tf.Graph = field(repr=False)
    nodes: dict[str, Any] = field(repr=False)  # nodes of the partitions by name
    sent: dict[bytes, str] = field(
        factory=dict, repr=False
    )  # name of a connection -> the tensor that is sent

    def read(self) -> dict[str, str]:
        for node in self.nodes.values():
            if node.op in _SEND:
                self.sent[node.attr["tensor_name"].s] = node.input[0]
        found = {name: node.device for name, node in self.nodes.items() if name in self.types}
        rewritten = [self.nodes[name] for name in found if self.types[name] != self.nodes[name].op]
        for absorbed, node in (*self._fused(rewritten), *self._siblings(rewritten)):
            found.setdefault(absorbed, node.device)
        for name, device in self._inlined():
            found.setdefault(name, device)
        return found

    def _source(self, name: str) -> str:
        """Return the tensor that an input of a node in a partition is, on whatever device it was made."""
        base = name.partition(":")[0]
        node = self.nodes.get(base)
        sent = self.sent.get(node.attr["tensor_name"].s) if node is not None and node.op in _RECEIVE else None
        if sent is not None:  # no op of the graph sends what a client feeds
            return self._source(sent)
        return name if ":" in name else f"{name}:0"

    def _fused(self, rewritten: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """Yield ops whose consumer has their inputs as its own, and so does their work as well."""
        for node in rewritten:
            taken = {self._source(each) for each in node.input if not each.startswith("^")}
            for absorbed in self._taken_over(self.graph.get_operation_by_name(node.name), taken):
                yield absorbed, node

    def _taken_over(self, op: tf.Operation, taken: set[str]) -> list[str]:
        """Return the producers of an op's inputs that did not run and whose own inputs are all in `taken`."""
        absorbed: list[str] = []
        for producer in {
            each.op.name: each.op for each in op.inputs if each.op.name not in self.nodes
        }.values():
            deeper = self._taken_over(producer, taken)
            if all(each.name in taken or each.op.name in deeper for each in producer.inputs):
                absorbed += [*deeper, producer.name]
        return absorbed

    def _siblings(self, rewritten: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """Yield ops whose consumers use an output of a rewritten op instead."""
        by_name = {node.name: node for node in rewritten}
        for name, node in self.nodes.items():
            if name not in self.types:
                continue
            for at, each in enumerate(node.input):
                base = self._source(each).partition(":")[0]
                if base in by_name and not each.startswith("^"):
                    yield from self._replaced(self.graph.get_operation_by_name(name), at, by_name[base])

    def _replaced(self, op: tf.Operation, at: int, node: Any) -> Iterator[tuple[str, Any]]:
        if at < len(op.inputs):
            wanted = op.inputs[at].op.name
            if wanted != node.name and wanted not in self.nodes:
                yield wanted, node

    def _inlined(self) -> Iterator[tuple[str, str]]:
        """Yield ops that were replaced by several ops.

        A loop is on the device of all of its ops; a constant is on the device of a copy.
        """
        bodies: dict[str, set[str]] = {}
        for name, node in self.nodes.items():
            if name not in self.types and node.op not in _SEND | _RECEIVE:
                for owner in self._owners(name):
                    bodies.setdefault(owner, set()).add(node.device)
        for owner, devices in bodies.items():
            requested = self.graph.get_operation_by_name(owner).device
            stayed = self.types[owner] == CONSTANT and requested in devices
            yield owner, requested if stayed else min(devices - {requested} or devices)

    def _owners(self, name: str) -> Iterator[str]:
        """Yield the ops of the graph from which an op of a partition was made under another name."""
        inner = name.removeprefix("Func/")
        at = inner.rfind("/")
        while at > 0:
            owner = inner[:at]
            if owner in self.types:
                if owner not in self.nodes:
                    yield owner
                return
            at = inner.rfind("/", 0, at)
