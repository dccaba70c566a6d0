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
        own = [self.graph.as_graph_element(each.name) for each in fetches if each is not None]
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


def before_a_step(compiled: CompiledGraph) -> Iterator[list[Any]]:
    """Yield what comes before the step of a worker with a graph of its own, as if it were the only worker."""
    exchange = compiled.exchange
    if exchange is not None:
        opened = None if exchange.coordination is None else exchange.coordination.open
        for op in (exchange.clear, opened, exchange.post):
            yield [op]
