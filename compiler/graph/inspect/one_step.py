"""Run a compiled graph once on made-up examples, to find on which device TensorFlow puts each op.

The step is run on a copy of the graph in a session of its own, so that neither the graph nor its variables
change and no data is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import variant_of
from compiler.graph.compiled import CompiledGraph
from compiler.graph.feeding import InputPipe
from compiler.graph.nodes import import_nodes
from compiler.graph.session_options import session_config


def run_one_step(compiled: CompiledGraph) -> dict[str, str]:
    """Initialise, do one training step, and evaluate one batch. The devices must exist, or be emulated.

    Returns:
        The full name of the device on which each op ran, by op name.
    """
    evaluation, loops = compiled.evaluation, compiled.train_loops
    step = [compiled.data_loss, compiled.total_loss, compiled.regularization, compiled.summary_op]
    step += [*compiled.learning_rates.values(), compiled.train_op, *(each.loss for each in loops)]
    for metrics in (compiled.metrics, *(each.metrics for each in loops)):
        step += [each.result for each in metrics.values()]
    evaluated = [*tf.nest.flatten(evaluation.outputs), evaluation.loss, evaluation.count]
    evaluated += [each.result for each in evaluation.metrics.values()]
    with StepCopy.of(compiled) as copy:
        copy.run([compiled.init_op])
        for pipe in (*compiled.train_inputs, evaluation.pipe):
            copy.start(pipe)
        alone = compiled.exchange is None  # else what is published is of all workers
        afterwards = [compiled.after_restore_op, compiled.publish_op if alone else None]
        for fetches in (*before_a_step(compiled), step, evaluated, afterwards):
            copy.run(fetches)
    return copy.assigned


@define
class StepCopy:
    """A copy of the graph, in which every op has the same name, and its session."""

    compiled: CompiledGraph = field(repr=False)
    graph: tf.Graph = field(repr=False)
    session: Any = field(repr=False)  # a session of the copy, which is open as long as the context of `of`
    # The full names of the devices on which ops ran, by op name.
    assigned: dict[str, str] = field(factory=dict, repr=False)

    @classmethod
    @contextmanager
    def of(cls, compiled: CompiledGraph) -> Iterator[StepCopy]:
        """Yield a copy of a graph, whose session is closed afterwards."""
        graph = tf.Graph()
        import_nodes(graph, compiled.graph.as_graph_def())
        with tf.compat.v1.Session(graph=graph, config=session_config(compiled.plan)) as session:
            yield cls(compiled, graph, session)

    def run(self, fetches: Sequence[Any]) -> None:
        """Run ops and tensors given by those of the original, and note the devices on which they ran."""
        own = [self.graph.as_graph_element(each.name) for each in fetches if each is not None]
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        self.session.run(own, options=options, run_metadata=metadata)
        self.assigned |= read_assigned(self.compiled.graph, metadata)

    def start(self, pipe: InputPipe, batch: Mapping[str, Any] | None = None) -> None:
        """Let an iterator give one batch of arrays repeatedly, a made-up one if none is given.

        Args:
            batch: The arrays by the names of the inputs, each with the batch axis first; None for a made-up
                batch.
        """
        device = self.compiled.plan.tensorflow_device(pipe.placed.device)
        with self.graph.as_default(), tf.device(device):
            data = tf.data.Dataset.from_tensors(dict(batch or made_up_batch(pipe))).repeat()
            start = tf.raw_ops.MakeIterator(
                dataset=variant_of(data),
                iterator=self.graph.as_graph_element(pipe.iterator.name),
            )
        self.session.run(start)


def before_a_step(compiled: CompiledGraph) -> Iterator[list[Any]]:
    """Yield what comes before the step of a worker with a graph of its own, as if it were the only worker."""
    exchange = compiled.exchange
    if exchange is not None:
        opened = None if exchange.coordination is None else exchange.coordination.open
        for op in (exchange.clear, opened, exchange.post):
            yield [op]


# --- the devices on which ops really ran ------------------------------------------------------------------
#
# Most ops are in a partition under their own names. Others are found by what replaced them: an op that
# TensorFlow fused with another (oneDNN makes one op of a convolution and its bias), a loop or call that it
# replaced by the ops of its body, and a small constant that it copied to every device that uses it. If
# nothing shows what became of an op, it has no device here.


_RECEIVE = {"_Recv", "_HostRecv"}
_SEND = {"_Send", "_HostSend"}
CONSTANT = "Const"


def read_assigned(graph: tf.Graph, metadata: Any) -> dict[str, str]:
    """Return the full name of the device on which each op ran, by op name.

    Args:
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
    sent: dict[bytes, str] = field(factory=dict, repr=False)  # name of a connection -> the tensor sent

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


# --- batches of made-up examples --------------------------------------------------------------------------


EVALUATED = 2
"""The examples in the batch of the evaluation."""

_PASSED_ON = (
    "Cast",
    "Enter",
    "ExpandDims",
    "GatherV2",
    "Identity",
    "RefEnter",
    "Reshape",
    "SelectV2",
    "Split",
    "SplitV",
    "Squeeze",
    "StridedSlice",
)
"""The types of ops whose result has values of an input, so that numbers of rows stay such numbers."""


def made_up_batch(pipe: InputPipe) -> dict[str, Any]:
    """Return a batch of the right types and shapes.

    Floats are random. So are integers that are looked up in a table: if all were equal, their row would be in
    the caches, and a step would take less time than with real examples. The rest are zeros or empty strings.
    """
    generator = np.random.default_rng(0)
    batch = {}
    for each in pipe.wanted:
        dtype, shape = tf.as_dtype(each.dtype), (pipe.size or EVALUATED, *each.assumed_shape)
        rows = _rows_of_table(pipe.batch[each.name]) if dtype.is_integer else None
        if dtype.is_floating:
            batch[each.name] = tf.constant(generator.random(shape), dtype)
        elif rows is not None:
            batch[each.name] = tf.constant(generator.integers(0, rows, shape), dtype)
        else:
            batch[each.name] = tf.zeros(shape, dtype)
    return batch


def _rows_of_table(numbers: tf.Tensor) -> int | None:
    """Return the rows of the smallest table in which numbers are looked up; None if they are in none."""
    found, seen, pending = list[int](), set[str](), [numbers]
    while pending:
        tensor = pending.pop()
        if tensor.name in seen:
            continue
        seen.add(tensor.name)
        for op in tensor.consumers():
            if op.type == "GatherV2" and tensor.name == op.inputs[1].name:
                rows = op.inputs[0].shape[0] if op.inputs[0].shape.rank else None
                found += [rows] if rows else []
            elif op.type in _PASSED_ON:
                pending += op.outputs
    return min(found, default=None)
