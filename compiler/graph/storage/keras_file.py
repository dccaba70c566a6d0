"""Writes the trained model to a file of Keras, without holding a large weight as a whole.

Keras keeps several copies of all weights in memory while it saves a model. If a weight is so large that it is
in slices in checkpoints, Keras saves the model with an empty array in its place, and its numbers are fetched
and written slice by slice.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import h5py
import tensorflow as tf

from compiler.graph.adapters.keras_private import create, give_stand_in
from compiler.graph.storage.export import evaluated_names, final_weights, keras_model, plain_model
from compiler.graph.storage.weight_files import INSIDE

if TYPE_CHECKING:
    from pathlib import Path

    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.storage.saving import Saving, Slice

Run = Callable[[Any], Any]
"""`Session.run` of the session that has the variables."""


def write_keras_file(
    compiled: CompiledGraph, saving: Saving, run: Run, path: Path, folder: Path, *, base: str = "."
) -> None:
    """Write the model with the weights that evaluation uses.

    Args:
        compiled: The graph.
        saving: The ops for checkpoints of the graph.
        run: `Session.run` of the session that has the variables.
        path: The file, `.keras`.
        folder: The folder in which its parts are made if there are large weights; it is removed afterwards.
        base: The folder in which `python(...)` looks for modules first.
    """
    slices = saving.slices()
    large = {
        name: slices[saved] for name, saved in evaluated_names(compiled).items() if len(slices[saved]) > 1
    }
    if not large:
        weights = final_weights(compiled, lambda names: saving.values(run, names))
        keras_model(compiled, weights, base=base).save(path)
        return
    try:
        filled = _save_without(compiled, large, saving, run, folder, base)
        with h5py.File(folder / INSIDE, "r+") as store:
            _fill(store, filled, run)
        with zipfile.ZipFile(path, "w") as archive:
            for each in sorted(folder.rglob("*")):
                if each.is_file():
                    archive.write(each, each.relative_to(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _save_without(
    compiled: CompiledGraph,
    large: Mapping[str, Sequence[Slice]],
    saving: Saving,
    run: Run,
    folder: Path,
    base: str,
) -> list[tuple[tuple[int, ...], Sequence[Slice]]]:
    """Save the model to a folder with empty arrays for large weights.

    Returns:
        The shape and the slices of each large weight in the model. Its array has the shape `(0, number)`,
        counted from 1, which no array of a weight has.
    """
    plain = plain_model(compiled, base=base, uncreated=True)
    filled: list[tuple[tuple[int, ...], Sequence[Slice]]] = []
    small = {}
    stood_for: set[int] = set()
    with tf.init_scope(), tf.device("CPU:0"):
        for name, variable in plain.variables.items():
            if name in large and tuple(variable.shape) == compiled.weights[name].shape:
                filled.append((tuple(variable.shape), large[name]))
                give_stand_in(variable, tf.zeros((0, len(filled)), variable.dtype))
                stood_for.add(id(variable))
            else:
                small[name] = variable
        for variable in plain.model.variables:
            if id(variable) not in stood_for:
                create(variable)
        names = evaluated_names(compiled)
        values = saving.values(run, [names[name] for name in small])
        for name, variable in small.items():
            variable.assign(values[names[name]].reshape(variable.shape))
        plain.model.save(folder, zipped=False)
    return filled


def _fill(store: h5py.File, filled: Sequence[tuple[tuple[int, ...], Sequence[Slice]]], run: Run) -> None:
    """Write the numbers of large weights where empty arrays stand for them."""
    found: dict[int, str] = {}

    def visit(path: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and len(item.shape) == 2 and item.shape[0] == 0:  # noqa: PLR2004
            found[item.shape[1]] = path

    store.visititems(visit)
    for number, (shape, slices) in enumerate(filled, start=1):
        empty = store[found[number]]
        kind, attributes = empty.dtype, dict(empty.attrs)
        del store[found[number]]
        array = store.create_dataset(found[number], shape, kind)
        array.attrs.update(attributes)
        for each in slices:
            array[each.region.index] = run(each.read)
