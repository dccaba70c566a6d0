"""Weights from a file that Keras has written: `.keras` or `.weights.h5`.

Only the arrays are read; no object of the file is made, so no code of it can run. Which array is which
weight is found by writing a model of the spec to such a file as well, with a number in every weight that
tells which it is.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import h5py
import numpy as np

from compiler.graph.export import plain_model
from dsl.diagnostics import RunError
from dsl.errors import running as errors

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from dsl.source import Span

INSIDE = "model.weights.h5"
LAYERS = "layers"
VARIABLES = "vars"


def read_weights(
    compiled: CompiledGraph, path: Path, span: Span | None, *, base: str
) -> dict[str, np.ndarray]:
    """Return the values of the weights in the file `path`, by their names in `CompiledGraph.weights`.

    Raises RunError where the file cannot be read, or does not have exactly the weights that the output of the
    model depends on, each in its shape.
    """
    found = _arrays(path, span)
    names = _layout(compiled, base)
    faults = [f"`{name}` is not in the file" for key, name in names.items() if key not in found]
    for key, array in found.items():
        name = names.get(key)
        if name is None:
            faults.append(f"the model has no place for `{key}`, {list(array.shape)}")
        elif tuple(array.shape) != compiled.weights[name].shape:
            here = list(compiled.weights[name].shape)
            faults.append(f"`{name}` is {list(array.shape)} there and {here} here")
    if faults:
        raise RunError(errors.weights_do_not_fit(str(path), sorted(faults), span))
    return {name: found[key] for key, name in names.items()}


def _arrays(path: Path, span: Span | None) -> dict[str, np.ndarray]:
    try:
        if path.suffix == ".keras":
            with zipfile.ZipFile(path) as archive:
                return _read(io.BytesIO(archive.read(INSIDE)))
        with path.open("rb") as file:
            return _read(file)
    except KeyError as fault:
        raise RunError(errors.weights_unreadable(str(path), f"there is no {INSIDE} in it", span)) from fault
    except OSError as fault:
        reason = fault.strerror.lower() if fault.strerror else "it is no HDF5 file"
        raise RunError(errors.weights_unreadable(str(path), reason, span)) from fault
    except zipfile.BadZipFile as fault:
        raise RunError(errors.weights_unreadable(str(path), "it is no Keras archive", span)) from fault


def _read(file: IO[bytes]) -> dict[str, np.ndarray]:
    """Return every array of an HDF5 file of Keras by layer names and its number in the layer."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(file, "r") as store:
        names: dict[str, str] = {}

        def note(path: str, item: Any) -> None:
            if path.endswith(f"/{VARIABLES}") and "name" in item.attrs:
                names[path.removesuffix(f"/{VARIABLES}")] = str(item.attrs["name"])

        def take(path: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and not _is_random_state(item):
                found[_key(path, names)] = np.asarray(item)

        store.visititems(note)
        store.visititems(take)
    return found


def _is_random_state(item: h5py.Dataset) -> bool:
    """Whether an array is what a random layer keeps: a pair of whole numbers."""
    return item.shape == (2,) and item.dtype.kind in "ui"


def _key(path: str, names: Mapping[str, str]) -> str:
    """Return where an array is, with the names of layers in place of the numbers that Keras gives them."""
    parts = path.split("/")
    shown = []
    for at, part in enumerate(parts):
        if part in (LAYERS, VARIABLES):
            continue
        own = at > 0 and parts[at - 1] == LAYERS
        shown.append(names.get("/".join(parts[: at + 1]), part) if own else part)
    return "/".join(shown)


def _layout(compiled: CompiledGraph, base: str) -> dict[str, str]:
    """Return which weight a file of this model has under which key."""
    plain = plain_model(compiled, base=base)
    names = list(plain.variables)
    for number, variable in enumerate(plain.variables.values()):
        variable.assign(np.full(variable.shape, number, variable.dtype))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / INSIDE
        plain.model.save_weights(path)
        with path.open("rb") as file:
            return {key: names[int(array.ravel()[0])] for key, array in _read(file).items()}
