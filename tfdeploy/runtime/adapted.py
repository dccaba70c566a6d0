"""Plans whose layers have learnt from data what they are to learn before training (`adapt = data.train`).

The state is computed from one pass over the split, in the order of its files, without shuffles. A run keeps
it in its directory, from which it is read when the run is continued or used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from compiler.model.layer_state import adapting_layers, with_states, with_vocabularies
from compiler.plan import WorkerPlan
from dsl.diagnostics import RunError, SpecError
from dsl.errors import layers as errors
from grammar.unparse.expressions import call as text_of
from tfdeploy.runtime.plans import folder_of
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.layer_states import LayerRecord, read_layer_states, write_layer_states
from tfdeploy.runtime.start_tensorflow import start_tensorflow

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    from compiler.graph.tower.adapt import Adaptation
    from compiler.model.graph import LayerNode
    from compiler.plan import Plan

    AnyPlan = TypeVar("AnyPlan", bound=Plan)

BATCH = 1024
"""The examples that are looked at together. Quantiles depend on it a little."""


def require_one_graph(plan: Plan) -> None:
    """Raise SpecError if layers learn from data in a run in which every worker has a graph of its own."""
    found = adapting_layers(plan.model)
    if found and isinstance(plan, WorkerPlan):
        span = plan.spec.update.span_of("replication")
        raise SpecError([errors.learnt_in_many_graphs(span, layer=found[0].call.name, step=found[0].span)])


def learn_states(plan: Plan, *, verbose: bool = False) -> Mapping[str, LayerRecord]:
    """Return what the layers of a plan learn from the data, by their paths; nothing if no layer learns.

    Args:
        plan: The plan.
        verbose: Whether TensorFlow's own messages are shown.

    Raises:
        SpecError: If a layer cannot learn where it is, or from its examples.
        RunError: If the data cannot be read.
    """
    model = with_vocabularies(plan.model, folder_of(plan.spec))
    found: dict[str, LayerRecord] = {}
    for node in adapting_layers(model):
        start_tensorflow(verbose=verbose)
        from compiler.graph.tower.adapt import Adaptation

        own = evolve(plan, model=with_states(model, {path: each.state for path, each in found.items()}))
        current = next(each for each in own.model.layers if each.path == node.path)
        adaptation = Adaptation.of(own.model, current, str(folder_of(plan.spec)))
        found[node.path] = LayerRecord.of(_learn(own, adaptation), _settings(plan, node))
    return found


def _settings(plan: Plan, node: LayerNode) -> str:
    """Return the text of a layer, and of those before it, to compare them with those of a later run."""
    from compiler.graph.tower.adapt import Adaptation

    adaptation = Adaptation.of(plan.model, node_of(plan, node.path), "")
    steps = [*adaptation.before, adaptation.call]
    return " -> ".join(text_of(plan.model.layers[each.layer].call) for each in steps)


def node_of(plan: Plan, path: str) -> LayerNode:
    """Return a layer of a plan by its path.

    Args:
        plan: The plan.
        path: The path of a layer that the plan has.
    """
    return next(each for each in plan.model.layers if each.path == path)


def _learn(plan: Plan, adaptation: Adaptation) -> Any:
    import tensorflow as tf

    from tfdeploy.data import small_graphs
    from tfdeploy.runtime.session.data import open_stream, splits_of

    split = next((each for name, each in splits_of(plan.spec).items() if name == adaptation.split), None)
    if split is None:
        span = adaptation.node.call.kwarg_spans.get("adapt", adaptation.node.span)
        data = plan.spec.data.span if plan.spec.data is not None else None
        raise SpecError(
            [
                errors.split_to_adapt_missing(
                    span, layer=adaptation.node.call.name, split=adaptation.split, data=data
                )
            ]
        )
    stream = open_stream(plan, split, adaptation.inputs, training=False, seed=0)
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        batches = stream.batches(BATCH, repeat=False, drop_remainder=False)
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        try:
            return adaptation.learn(
                iterator.get_next(), lambda tensors: small_graphs.run_to_end(iterator.initializer, tensors)
            )
        except small_graphs.FAILURES as error:
            fault = stream.explain(error)
            raise (fault if fault is not None else error) from error


def adapted(plan: AnyPlan, *, must: bool = False, verbose: bool = False) -> AnyPlan:
    """Return a plan whose layers have learnt, by the record in the run directory if that fits.

    Args:
        plan: The plan.
        must: Whether there must be a fitting record, because weights were trained with it.
        verbose: Whether TensorFlow's own messages are shown.

    Raises:
        SpecError: If a layer cannot learn where it is, or from its examples.
        RunError: If the data cannot be read, or a record that must be there does not fit.
    """
    wanted = {each.path: each for each in adapting_layers(plan.model)}
    if not wanted:
        return plan
    path = RunDirectory.of(plan.spec).layer_states
    start_tensorflow(verbose=verbose)
    try:
        settings = {name: (node, _settings(plan, node)) for name, node in wanted.items()}
        return _with(plan, read_layer_states(path, settings))
    except RunError:
        if must:
            raise
        return _with(plan, learn_states(plan, verbose=verbose))


def adapted_for_run(
    plan: AnyPlan, directory: RunDirectory, *, goes_on: bool, verbose: bool = False
) -> AnyPlan:
    """Return the plan of a run whose layers have learnt, and record that in its directory.

    Args:
        plan: The plan.
        directory: The run directory, which is locked.
        goes_on: Whether there is a checkpoint from which the run may continue.
        verbose: Whether TensorFlow's own messages are shown.
    """
    if not adapting_layers(plan.model):
        return plan
    if goes_on:
        return adapted(plan, must=True, verbose=verbose)
    records = learn_states(plan, verbose=verbose)
    write_layer_states(directory.layer_states, records)
    return _with(plan, records)


def _with(plan: AnyPlan, records: Mapping[str, LayerRecord]) -> AnyPlan:
    return evolve(plan, model=with_states(plan.model, {path: each.state for path, each in records.items()}))
