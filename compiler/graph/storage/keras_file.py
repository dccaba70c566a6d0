"""Writes the trained model to a file of Keras, without holding a large weight as a whole.

Keras keeps several copies of all weights in memory while it saves a model. If a weight is so large that it is
in slices in checkpoints, Keras saves the model with an empty array in its place, and its numbers are fetched
and written slice by slice.
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from types import FunctionType
from typing import Any

import h5py
import keras
import tensorflow as tf

from compiler.graph.adapters.keras_private import create, give_stand_in
from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.export import (
    PlainModel,
    evaluated_names,
    final_weights,
    keras_model,
    plain_model,
    saving,
)
from compiler.graph.storage.saving import Saving, Slice
from compiler.graph.storage.weight_files import INSIDE
from compiler.graph.tower.network.keras_scope import own_names, stateless
from compiler.graph.tower.network.precision import keras_settings
from compiler.graph.user_code import BESIDE_SPEC
from dsl.diagnostics import SpecError
from dsl.errors.plan import cannot_be_saved

Run = Callable[[Any], Any]
"""`Session.run` of the session that has the variables."""


def write_keras_file(
    compiled: CompiledGraph, saving: Saving, run: Run, path: Path, folder: Path, *, base: str = "."
) -> None:
    """Write the model with the weights that evaluation uses.

    Args:
        run: `Session.run` of the session that has the variables.
        folder: The folder in which its parts are made if there are large weights; it is removed afterwards.
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


def require_savable(compiled: CompiledGraph, *, base: str = ".") -> None:
    """Raise SpecError if the model could be trained, but not be saved and loaded again.

    No variable is created, and no file written: the configuration that the file would have is made, and a
    model of it.

    Raises:
        SpecError: Keras, or code of the user's, refuses. The diagnostic has the step that is the reason.
    """
    plain, model = plain_model(compiled, base=base, uncreated=True), compiled.plan.model
    _require_same_sizes(plain, compiled)
    policy = keras_settings(compiled.plan.update.precision)
    trusted = any(each.kind == "application" for each in model.layers)  # large, and of Keras alone
    with stateless(), tf.init_scope(), tf.device("CPU:0"), policy, own_names():
        if not trusted:
            with suppress(Exception):  # what fails is found below
                _loaded(plain.model)
                return
        used = {id(each) for each in plain.model.operations}
        for node, layer in zip(model.layers, plain.layers, strict=True):
            if id(layer) in used and node.kind != "application":
                with saving(node, node.span):
                    _loaded(layer)
        with saving(model, compiled.plan.spec.model.span):
            if trusted:
                _text(plain.model)
            else:
                _loaded(plain.model)


def _require_same_sizes(plain: PlainModel, compiled: CompiledGraph) -> None:
    """Raise SpecError if a layer has other weights in a file, because Keras takes it to get another shape."""
    names = {id(variable): name for name, variable in plain.variables.items()}
    for node, layer in zip(compiled.plan.model.layers, plain.layers, strict=True):
        for variable in getattr(layer, "variables", ()):
            name = names.get(id(variable))
            trained = variable.shape if name is None else compiled.weights[name].shape
            if prod(variable.shape) != prod(trained):
                own, other = list(variable.shape), list(trained)
                reason = f"Keras makes `{name}` as `{own}`, and it is trained as `{other}`"
                raise SpecError([cannot_be_saved(node.span, what=node.label, reason=reason, own=False)])


def _text(part: Any) -> str:
    """Return the configuration of a model or a layer as a file has it."""
    return json.dumps(keras.saving.serialize_keras_object(part))


def _loaded(part: Any) -> Any:
    """Return what is loaded of a model or a layer, as a file has it."""
    return keras.saving.deserialize_keras_object(json.loads(_text(part)), _own_objects(), safe_mode=False)


def _own_objects() -> dict[str, Any]:
    """Return the classes and functions of the modules beside specs, which a file only names.

    What these import, such as `typing.Any`, would take the place of an op of Keras of its name.
    """
    modules = [each for name, each in sys.modules.items() if name.startswith(BESIDE_SPEC)]
    named = ((name, each) for module in modules for name, each in vars(module).items() if callable(each))
    return {name: each for name, each in named if not _is_from_elsewhere(each)}


def _is_from_elsewhere(found: Any) -> bool:
    """Whether a class or a function is none of a module beside a spec."""
    return isinstance(found, (type, FunctionType)) and not found.__module__.startswith(BESIDE_SPEC)


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
    """Write the numbers of large weights wherever an empty array stands for one: wrappers list some twice."""
    found: dict[int, list[str]] = {}

    def visit(path: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and len(item.shape) == 2 and item.shape[0] == 0:  # noqa: PLR2004
            found.setdefault(item.shape[1], []).append(path)

    store.visititems(visit)
    for number, (shape, slices) in enumerate(filled, start=1):
        arrays = [_replaced(store, path, shape) for path in found[number]]
        for each in slices:
            value = run(each.read)
            for array in arrays:
                array[each.region.index] = value


def _replaced(store: h5py.File, path: str, shape: tuple[int, ...]) -> Any:
    """Return an array of a shape in place of an empty one."""
    kind, attributes = store[path].dtype, dict(store[path].attrs)
    del store[path]
    array = store.create_dataset(path, shape, kind)
    array.attrs.update(attributes)
    return array
