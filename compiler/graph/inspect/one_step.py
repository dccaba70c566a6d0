"""Run a compiled graph once on made-up examples, to find on which device TensorFlow puts each op.

The step is run on a copy of the graph in a session of its own, so that neither the graph nor its variables
change and no data is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import variant_of
from compiler.graph.inspect.assigned import read_assigned
from compiler.graph.inspect.made_up import made_up_batch
from compiler.graph.nodes import import_nodes
from compiler.graph.session_options import session_config

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.inputs.iterators import InputPipe


def run_one_step(compiled: CompiledGraph) -> dict[str, str]:
    """Initialise, do one training step, and evaluate one batch. The devices must exist, or be emulated.

    Returns:
        The full name of the device on which each op ran, by op name.
    """
    with StepCopy.of(compiled) as copy:
        copy.run([compiled.init_op])
        for pipe in (*compiled.train_inputs, compiled.evaluation.pipe):
            copy.start(pipe)
        for fetches in (
            *before_a_step(compiled),
            _step(compiled),
            _evaluation(compiled),
            _afterwards(compiled),
        ):
            copy.run(fetches)
    return copy.assigned


@define
class StepCopy:
    """A copy of the graph, in which every op has the same name, and its session.

    Attributes:
        compiled: The graph that was copied.
        graph: The copy.
        session: A session of the copy, which is open as long as the context of `of`.
        assigned: The full names of the devices on which ops ran, by op name.
    """

    compiled: CompiledGraph = field(repr=False)
    graph: tf.Graph = field(repr=False)
    session: Any = field(repr=False)
    assigned: dict[str, str] = field(factory=dict, repr=False)

    @classmethod
    @contextmanager
    def of(cls, compiled: CompiledGraph) -> Iterator[StepCopy]:
        """Yield a copy of a graph, whose session is closed afterwards."""
        graph = tf.Graph()
        import_nodes(graph, compiled.graph.as_graph_def(), {})
        with tf.compat.v1.Session(graph=graph, config=session_config(compiled.plan)) as session:
            yield cls(compiled, graph, session)

    def run(self, fetches: Sequence[Any]) -> None:
        """Run ops and tensors given by those of the original, and note the devices on which they ran."""
        own = [self.graph.as_graph_element(each.name) for each in fetches]
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        self.session.run(own, options=options, run_metadata=metadata)
        self.assigned |= read_assigned(self.compiled.graph, metadata)

    def start(self, pipe: InputPipe, batch: Mapping[str, Any] | None = None) -> None:
        """Let an iterator give one batch of arrays repeatedly, a made-up one if none is given.

        Args:
            pipe: The pipe of the original graph whose iterator is meant.
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


def _step(compiled: CompiledGraph) -> list[Any]:
    """Return all that a step runs whose results are logged."""
    wanted = [compiled.data_loss, compiled.total_loss, compiled.regularization]
    wanted += [*compiled.learning_rates.values(), compiled.summary_op, compiled.train_op]
    wanted += [each.result for each in compiled.metrics.values()]
    for loop in compiled.train_loops:
        wanted += [loop.loss, *(each.result for each in loop.metrics.values())]
    return [each for each in wanted if each is not None]


def before_a_step(compiled: CompiledGraph) -> Iterator[list[Any]]:
    """Yield what comes before the step of a worker with a graph of its own, as if it were the only worker."""
    exchange = compiled.exchange
    if exchange is not None:
        opened = None if exchange.coordination is None else exchange.coordination.open
        for op in (exchange.clear, opened, exchange.post):
            yield [op] if op is not None else []


def _evaluation(compiled: CompiledGraph) -> list[Any]:
    evaluation = compiled.evaluation
    results = [each.result for each in evaluation.metrics.values()]
    return [*tf.nest.flatten(evaluation.outputs), evaluation.loss, evaluation.count, *results]


def _afterwards(compiled: CompiledGraph) -> list[Any]:
    return list(_present(compiled.after_restore_op, compiled.publish_op))


def _present(*ops: Any) -> Iterator[Any]:
    return (each for each in ops if each is not None)
