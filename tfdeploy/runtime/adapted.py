"""Plans whose layers have learnt from data what they are to learn before training (`adapt = data.train`).

The state is computed from one pass over the split, in the order of its files, without shuffles. A run
keeps it in its directory, from which it is read when the run is continued or used.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen

from compiler.model.layer_state import adapting_layers, with_states, with_vocabularies
from compiler.plan import WorkerPlan
from dsl.diagnostics import RunError, SpecError
from dsl.errors import layers as errors
from dsl.files.regular import system_reason
from dsl.files.typed_json import OPTIONAL, BadRecord, read_record, to_json
from grammar.unparse import call as text_of
from tfdeploy.runtime.plans import folder_of
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.start_tensorflow import start_tensorflow

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeVar

    from compiler.graph.tower.adapt import Adaptation
    from compiler.model.graph import LayerNode
    from compiler.model.layer_state import State
    from compiler.plan import Plan
    from dsl import ir

    AnyPlan = TypeVar("AnyPlan", bound=Plan)


BATCH = 1024
"""The examples that are looked at together. Quantiles depend on it a little."""


def require_one_graph(plan: Plan) -> None:
    """Raise SpecError if layers learn from data in a run in which every worker has a graph of its own."""
    found = adapting_layers(plan.model)
    if found and isinstance(plan, WorkerPlan):
        span = plan.spec.update.span_of("replication")
        raise SpecError([errors.learnt_in_many_graphs(span, layer=found[0].call.name, step=found[0].span)])


def learn_states(plan: Plan) -> Mapping[str, LayerRecord]:
    """Return what the layers of a plan learn from the data, by their paths; nothing if no layer learns.

    Raises:
        SpecError: If a layer cannot learn where it is, or from its examples.
        RunError: If the data cannot be read.
    """
    model = with_vocabularies(plan.model, folder_of(plan.spec))
    found: dict[str, LayerRecord] = {}
    for node in adapting_layers(model):
        start_tensorflow()
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
    """Return a layer of a plan by its path."""
    return next(each for each in plan.model.layers if each.path == path)


def _learn(plan: Plan, adaptation: Adaptation) -> Any:
    import tensorflow as tf

    from tfdeploy.data import small_graphs
    from tfdeploy.runtime.session.data import open_stream, splits_of

    split = next((each for name, each in splits_of(plan.spec).items() if name == adaptation.split), None)
    if split is None:
        call, name = adaptation.node.call, adaptation.split
        span = call.kwarg_spans.get("adapt", adaptation.node.span)
        data = plan.spec.data.span if plan.spec.data is not None else None
        raise SpecError([errors.split_to_adapt_missing(span, layer=call.name, split=name, data=data)])
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


def adapted(plan: AnyPlan, *, must: bool = False) -> AnyPlan:
    """Return a plan whose layers have learnt, by the record in the run directory if that fits.

    Args:
        must: Whether there must be a fitting record, because weights were trained with it.

    Raises:
        RunError: If the data cannot be read, or a record that must be there does not fit.
    """
    wanted = {each.path: each for each in adapting_layers(plan.model)}
    if not wanted:
        return plan
    path = RunDirectory.of(plan.spec).layer_states
    start_tensorflow()
    try:
        settings = {name: (node, _settings(plan, node)) for name, node in wanted.items()}
        return _with(plan, read_layer_states(path, settings))
    except RunError:
        if must:
            raise
        return _with(plan, learn_states(plan))


def adapted_for_run(plan: AnyPlan, directory: RunDirectory, *, goes_on: bool) -> AnyPlan:
    """Return the plan of a run whose layers have learnt, and record that in its directory."""
    if not adapting_layers(plan.model):
        return plan
    if goes_on:
        return adapted(plan, must=True)
    records = learn_states(plan)
    write_layer_states(directory.layer_states, records)
    return _with(plan, records)


def _with(plan: AnyPlan, records: Mapping[str, LayerRecord]) -> AnyPlan:
    return evolve(plan, model=with_states(plan.model, {path: each.state for path, each in records.items()}))


LIMIT = 1 << 30
"""The largest size of the file in bytes. A vocabulary of a million words takes some twenty megabytes."""


@frozen
class Numbers:
    """An array of numbers."""

    shape: tuple[int, ...]  # the shape, which is empty for a single number
    values: tuple[float, ...]  # the numbers, with the last axis changing fastest


@frozen
class LayerRecord:
    """What one layer has learnt."""

    settings: str  # what it was learnt with: the layer and those before it, as text
    # Its vocabulary, if that has words.
    words: tuple[str, ...] | None = field(default=None, metadata={OPTIONAL: True})
    # Its vocabulary, if that has whole numbers.
    ids: tuple[int, ...] | None = field(default=None, metadata={OPTIONAL: True})
    numbers: Mapping[str, Numbers] = field(factory=dict)  # all else, by the names of arguments

    @classmethod
    def of(cls, state: State, settings: str) -> LayerRecord:
        """Return the record of a state."""
        vocabulary = state.get("vocabulary", ())
        has_words = isinstance(vocabulary, tuple) and isinstance(next(iter(vocabulary), 0), str)
        words = vocabulary if has_words else None
        ids = vocabulary if words is None and "vocabulary" in state else None
        numbers = {name: _flat(value) for name, value in state.items() if name != "vocabulary"}
        return cls(settings, words, ids, numbers)  # type: ignore[arg-type] # a vocabulary has words or numbers

    @property
    def state(self) -> State:
        """The state, as arguments of the layer by name."""
        vocabulary = self.words if self.words is not None else self.ids
        found: dict[str, ir.Value] = {} if vocabulary is None else {"vocabulary": vocabulary}
        return found | {name: _nested(each.values, each.shape) for name, each in self.numbers.items()}


@frozen
class LayerStates:
    """The content of the file."""

    layers: Mapping[str, LayerRecord]


def _flat(value: ir.Value) -> Numbers:
    array = np.asarray(value, np.float64)
    return Numbers(array.shape, tuple(array.ravel().tolist()))


def _nested(values: tuple[float, ...], shape: tuple[int, ...]) -> ir.Value:
    if not shape:
        return values[0]
    size = prod(shape[1:])
    return tuple(_nested(values[at * size : (at + 1) * size], shape[1:]) for at in range(shape[0]))


def write_layer_states(path: Path, records: Mapping[str, LayerRecord]) -> None:
    """Replace the file as a whole."""
    write_atomically(path, to_json(LayerStates(records), indent=1) + "\n")


def read_layer_states(path: Path, wanted: Mapping[str, tuple[LayerNode, str]]) -> Mapping[str, LayerRecord]:
    """Return what layers have learnt; raises RunError if the file is damaged or of other settings."""
    name, (node, _) = next(iter(wanted.items()))
    try:
        found = read_record(path, LayerStates, LIMIT).layers
    except (BadRecord, OSError) as fault:
        reason = system_reason(fault) if isinstance(fault, OSError) else f"the file {fault}"
        raise RunError(
            errors.state_does_not_fit(node.span, path=str(path), layer=name, reason=reason)
        ) from fault
    for name, (node, settings) in wanted.items():
        wrong = _misfit(found.get(name), settings)
        if wrong is not None:
            raise RunError(errors.state_does_not_fit(node.span, path=str(path), layer=name, reason=wrong))
    return {name: found[name] for name in wanted}


def _misfit(record: LayerRecord | None, settings: str) -> str | None:
    """Return what is wrong with the record of a layer, or None."""
    if record is None or any(len(each.values) != prod(each.shape) for each in record.numbers.values()):
        return "its entry is missing or damaged"
    if record.settings != settings:
        return f"it was `{record.settings}`, and is `{settings}` now"
    return None
