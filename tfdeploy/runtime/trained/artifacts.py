"""The files of `compile`: a graph that any TensorFlow program can load, its placement map, and its spec."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.storage.saving import add_saving
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.atomic import temporary_name
from tfdeploy.runtime.records.effective import effective_text
from tfdeploy.runtime.records.files import replacing, write_atomically, writing
from tfdeploy.runtime.records.outputs import GRAPH_FILES, GRAPH_MARK, GRAPH_MARK_TEXT
from tfdeploy.runtime.session.faults import reason_of

if TYPE_CHECKING:
    from pathlib import Path

    from compiler.graph.compiled import CompiledGraph
    from compiler.mapping.records import PlacementMap
    from tfdeploy.runtime.trained.trained import TrainedModel

v1 = tf.compat.v1


def write_graph(compiled: CompiledGraph, placement: PlacementMap, directory: Path) -> list[Path]:
    """Write `graph.pb` (a MetaGraphDef), `placement.json` and `spec.tfdeploy`; return their paths.

    The MetaGraphDef has a SaverDef for checkpoints, and the names of the ops to run in the collections
    `init_op`, `after_restore_op`, `train_op`, `total_loss` and `global_step`.

    Args:
        compiled: The graph.
        placement: Its placement map.
        directory: The folder, which is made if it does not exist.

    Raises:
        RunError: The files cannot be written.
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

    Args:
        trained: The trained model.
        folder: The folder of the SavedModel.

    Raises:
        RunError: The model cannot be written.
    """
    beside = temporary_name(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        trained.keras_model().export(beside, verbose=False)
        beside.rename(folder)
    except (OSError, tf.errors.OpError) as fault:
        raise RunError(errors.cannot_write(path=str(folder), reason=reason_of(fault))) from fault
    finally:
        shutil.rmtree(beside, ignore_errors=True)


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
