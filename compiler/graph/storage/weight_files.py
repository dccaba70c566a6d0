"""Read weights from a file that Keras has written: `.keras` or `.weights.h5`.

Only arrays are read. No object of the file is made, so none of its code can run. To find which array is which
weight, a model of the spec is written to such a file as well, with a number in every weight that identifies
it.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from compiler.graph.storage.export import plain_model
from compiler.graph.storage.hdf5_files import Stored, StrangeFileError, contents, open_store
from compiler.graph.storage.zip_files import SwellingError, ZipArchive
from dsl.diagnostics import RunError
from dsl.errors.running import running as errors
from dsl.files.regular import open_regular

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from dsl.source import Span

INSIDE = "model.weights.h5"
LAYERS = "layers"
VARIABLES = "vars"


def read_weights(
    compiled: CompiledGraph, path: Path, span: Span | None, *, base: str
) -> dict[str, np.ndarray]:
    """Return the values of the weights in a file, by their names in `CompiledGraph.weights`.

    No number is read before the file is known to have exactly the weights that the output of the model
    depends on, each with its shape.

    Args:
        compiled: The graph.
        path: The file.
        span: The place in the spec that names it.
        base: The folder in which `python(...)` looks for modules first.

    Raises:
        RunError: The file cannot be read, or has other weights or shapes.
    """
    names = _layout(compiled, base)
    with _readable(path, span), _opened(path) as file, open_store(file) as store:
        there = contents(store)
        found = _arrays(there.arrays, there.names)
        faults = [f"`{name}` is not in the file" for key, name in names.items() if key not in found]
        for key, array in found.items():
            name = names.get(key)
            if name is None:
                faults.append(f"the model has no place for `{key}`, {list(array.shape)}")
            elif array.shape != compiled.weights[name].shape:
                here = list(compiled.weights[name].shape)
                faults.append(f"`{name}` is {list(array.shape)} there and {here} here")
        if faults:
            raise RunError(errors.weights_do_not_fit(str(path), sorted(faults), span))
        return {name: found[key].read() for key, name in names.items()}


@contextmanager
def _readable(path: Path, span: Span | None) -> Iterator[None]:
    """Turn errors of reading a file of weights into a diagnostic."""
    try:
        yield
    except StrangeFileError as fault:
        raise RunError(errors.weights_unreadable(str(path), str(fault), span)) from fault
    except OSError as fault:
        reason = fault.strerror.lower() if fault.strerror else "it is not an HDF5 file"
        raise RunError(errors.weights_unreadable(str(path), reason, span)) from fault
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as fault:
        swells = isinstance(fault, SwellingError)
        reason = str(fault) if swells else "it is not a Keras archive"
        raise RunError(errors.weights_unreadable(str(path), reason, span)) from fault


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open the HDF5 file that `path` is, or that is in the archive `path`."""
    if path.suffix == ".keras":
        with ZipArchive(path) as archive:
            if INSIDE not in archive.namelist():
                raise StrangeFileError(f"there is no {INSIDE} in it")
            inside = io.BytesIO(archive.read(INSIDE))
        yield inside
    else:
        with open_regular(path) as file:
            yield file


def _arrays(stored: Mapping[str, Stored], names: Mapping[str, str]) -> dict[str, Stored]:
    """Return every array of a file of Keras by layer names and its number in the layer."""
    layers = {path.removesuffix(f"/{VARIABLES}"): name for path, name in names.items()}
    return {_key(path, layers): array for path, array in stored.items() if not _is_random_state(array)}


def _is_random_state(array: Stored) -> bool:
    """Whether an array is the state of a random layer: a pair of whole numbers."""
    return array.shape == (2,) and array.kind in "ui"


def _key(path: str, names: Mapping[str, str]) -> str:
    """Return the path of an array, with names of layers instead of the numbers that Keras gives them."""
    parts = path.split("/")
    shown = []
    for at, part in enumerate(parts):
        if part in (LAYERS, VARIABLES):
            continue
        own = at > 0 and parts[at - 1] == LAYERS
        shown.append(names.get("/".join(parts[: at + 1]), part) if own else part)
    return "/".join(shown)


def _layout(compiled: CompiledGraph, base: str) -> dict[str, str]:
    """Return the weight under each key of a file of this model."""
    plain = plain_model(compiled, base=base)
    names = list(plain.variables)
    for number, variable in enumerate(plain.variables.values()):
        variable.assign(np.full(variable.shape, number, variable.dtype))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / INSIDE
        plain.model.save_weights(path)
        with _opened(path) as file, open_store(file) as store:
            found = contents(store)
            arrays = _arrays(found.arrays, found.names)
            return {key: names[int(array.read().ravel()[0])] for key, array in arrays.items()}
