"""A trained model, taken from a checkpoint of its run to be evaluated or used, and the files of `compile`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.room import require_room
from compiler.graph.storage.export import final_weights, keras_model
from compiler.graph.storage.saving import add_saving
from compiler.mapping.records import PlacementMap
from compiler.process import memory_limit
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import running as errors
from tfdeploy.runtime.adapted import adapted
from tfdeploy.runtime.plans import folder_of, graph_of, plan_of, require_devices
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.effective import effective_text
from tfdeploy.runtime.records.files import (
    GRAPH_FILES,
    GRAPH_MARK,
    GRAPH_MARK_TEXT,
    new_folder,
    replacing,
    write_atomically,
    writing,
)
from tfdeploy.runtime.records.result import Evaluated, SplitResult
from tfdeploy.runtime.records.store import MOST_DIGITS, NAME, BrokenCheckpoint, Checkpoint, Store
from tfdeploy.runtime.session.checkpoints import Checkpoints, DamagedCheckpoint
from tfdeploy.runtime.session.data import open_stream, splits_of
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.session.faults import located_examples, reason_of, refused
from tfdeploy.runtime.train.evaluation import doubt, evaluate, read_best


@frozen
class TrainedModel:
    """A session with the variables of a checkpoint. It is a context manager that closes the session."""

    engine: Engine
    checkpoint: Checkpoint

    @classmethod
    def load(
        cls,
        spec: ir.Spec,
        warn: Callable[[Diagnostic], None],
        *,
        checkpoint: str | None = None,
        emulate: bool = False,
    ) -> Self:
        """Build the graph of a spec, and restore a checkpoint of its run directory.

        The model of a spec for a cluster is placed on this machine, because checkpoints know no devices.

        Args:
            warn: Called with a warning about each checkpoint that is passed over.
            checkpoint: A step, or the path by which TensorFlow knows a checkpoint. By default it is the best
                one if the spec asks for the best, else the newest one that can be read.

        Raises:
            RunError: If there is no such checkpoint.
        """
        spec = _on_this_machine(spec) if spec.devices.jobs else spec
        plan = plan_of(spec, emulate=emulate)
        require_devices(plan)
        store = RunDirectory.of(spec).store
        chosen = _find(store, checkpoint, warn, best=spec.train.best is not None)
        if chosen is None and not store.steps():
            raise RunError(errors.no_checkpoint(directory=str(store.directory)))
        compiled = graph_of(adapted(plan, must=True))
        require_room(compiled, memory_limit())
        engine = Engine.start(compiled)
        try:
            checkpoints = Checkpoints(store, engine, keep=spec.train.keep, trains=False)
            if chosen is None:
                chosen = checkpoints.latest(warn)
            else:
                _restore(checkpoints, chosen, warn)
        except BaseException:
            engine.close()
            raise
        assert chosen is not None
        return cls(engine, chosen)

    @property
    def spec(self) -> ir.Spec:
        """The spec of the model."""
        return self.engine.compiled.plan.spec

    def keras_model(self) -> Any:
        """Return the model as a Keras model, with the averaged weights if there are any."""
        compiled = self.engine.compiled
        return keras_model(
            compiled, final_weights(compiled, self.engine.values), base=str(folder_of(self.spec))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()


def _restore(checkpoints: Checkpoints, chosen: Checkpoint, warn: Callable[[Diagnostic], None]) -> None:
    try:
        checkpoints.restore(chosen, warn)
    except (DamagedCheckpoint, tf.errors.OpError) as fault:
        reason = str(fault) if isinstance(fault, DamagedCheckpoint) else reason_of(fault)
        raise RunError(errors.checkpoint_unreadable(path=str(chosen.prefix), reason=reason)) from fault


def _on_this_machine(spec: ir.Spec) -> ir.Spec:
    """Return a spec for a cluster as one clone on this machine, with the same model and the same slots."""
    batch = spec.clones.batch[0] if isinstance(spec.clones.batch, tuple) else spec.clones.batch
    update = evolve(
        spec.update,
        mode="sync",
        aggregate=ir.Call("add_n"),
        replication=None,
        backup=0,
        staleness=None,
        average_every=None,
        average_slots=False,
    )
    return evolve(
        spec,
        devices=ir.Devices(),
        clones=ir.Clones(count=1, batch=batch),
        place=ir.Place(),
        expect=ir.Expect(),
        update=update,
    )


def _find(
    store: Store, wanted: str | None, warn: Callable[[Diagnostic], None], *, best: bool
) -> Checkpoint | None:
    """Return the checkpoint `wanted`, or the `best` one; None if the newest one is to be used."""
    if wanted is None:
        return _best(store, warn) if best else None
    path = store.prefix(wanted) if _is_step(wanted) else Path(wanted)
    name, _, number = path.name.rpartition("-")
    if name != NAME or not _is_step(number):
        raise _no_such_checkpoint(wanted, store)
    found = Store(path.parent).find(int(number))
    if isinstance(found, BrokenCheckpoint):
        if not list(found.prefix.parent.glob(f"{found.prefix.name}.*")):
            raise _no_such_checkpoint(str(found.prefix), Store(path.parent), store)
        raise RunError(errors.checkpoint_unreadable(path=str(found.prefix), reason=found.reason))
    return found


def _no_such_checkpoint(path: str, *stores: Store) -> RunError:
    """Return the error of a checkpoint that is not there; it names those in the first folder that has any."""
    for store in stores:
        steps = [str(each.manifest.step) for each in store.whole()]
        if steps:
            folder = str(store.directory)
            return RunError(errors.no_such_checkpoint(path=path, folder=folder, steps=steps))
    return RunError(errors.no_such_checkpoint(path=path))


def _is_step(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def _best(store: Store, warn: Callable[[Diagnostic], None]) -> Checkpoint | None:
    """Return the checkpoint of the best evaluation; None, with a warning, if it is damaged."""
    best = read_best(store.best, warn)
    found = store.find(best.step) if best is not None else None
    if isinstance(found, BrokenCheckpoint):
        warn(errors.checkpoint_damaged(path=str(found.prefix), reason=found.reason))
        return None
    return found


def require_splits(spec: ir.Spec, names: Iterable[str]) -> None:
    """Raise RunError if the spec lacks a split of one of these names."""
    missing = [each for each in names if each not in splits_of(spec)]
    if missing:
        span = spec.data.span if spec.data is not None else spec.span
        raise RunError(errors.split_missing(span, names=missing))


def evaluate_trained(
    trained: TrainedModel, warn: Callable[[Diagnostic], None], names: Sequence[str] | None = None
) -> Evaluated:
    """Return the scores of a trained model on the splits `names`, by default on all but `train`.

    Raises:
        RunError: If the spec has no split of a name, or its data cannot be read.
    """
    compiled = trained.engine.compiled
    splits = splits_of(trained.spec)
    wanted = [each for each in splits if each != "train"] if names is None else list(dict.fromkeys(names))
    require_splits(trained.spec, wanted or ["test"])
    results: dict[str, SplitResult] = {}
    for name, split in splits.items():
        if name not in wanted:
            continue
        stream = open_stream(compiled.plan, split, compiled.plan.model.inputs)
        with located_examples(f"evaluation on `{name}`", trained.engine, stream):
            scores = evaluate(trained.engine, stream)
        results[name] = SplitResult.of(scores)
        warning = doubt(scores, stream, name)
        if warning is not None:
            warn(warning)
    return Evaluated(str(trained.checkpoint.prefix), trained.checkpoint.step, results)


v1 = tf.compat.v1


def write_graph(compiled: CompiledGraph, placement: PlacementMap, directory: Path) -> list[Path]:
    """Write `graph.pb` (a MetaGraphDef), `placement.json` and `spec.tfdeploy`; return their paths.

    The MetaGraphDef has a SaverDef for checkpoints, and the names of the ops to run in the collections
    `init_op`, `after_restore_op`, `train_op`, `total_loss` and `global_step`.
    """
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    write_atomically(directory / GRAPH_MARK, GRAPH_MARK_TEXT)
    paths = [directory / name for name in GRAPH_FILES]
    with replacing(paths[0]) as beside:
        beside.write_bytes(meta_graph(compiled).SerializeToString(deterministic=True))
    write_atomically(paths[1], placement.to_json())
    write_atomically(paths[2], effective_text(compiled.plan.spec))
    return paths


def write_saved_model(trained: TrainedModel, folder: Path) -> None:
    """Write a trained model as a SavedModel; `folder`, which must not exist, appears when it is complete.

    Raises:
        RunError: The model cannot be written.
    """
    try:
        with new_folder(folder) as beside:
            trained.keras_model().export(beside, verbose=False)
    except tf.errors.OpError as fault:
        raise refused(folder, fault) from fault


def meta_graph(compiled: CompiledGraph) -> Any:
    """Return the graph as a MetaGraphDef, with collections that name the ops to run."""
    saving = add_saving(compiled)
    named = {
        "init_op": compiled.init_op,
        "after_restore_op": compiled.after_restore_op,
        "train_op": compiled.train_op,
        "total_loss": compiled.total_loss,
        "summary_op": compiled.summary_op,
    }
    for name, what in named.items():
        if what is not None and not compiled.graph.get_collection_ref(name):
            compiled.graph.add_to_collection(name, what)
    with compiled.graph.as_default():
        return v1.train.export_meta_graph(saver_def=saving.saver_def())
