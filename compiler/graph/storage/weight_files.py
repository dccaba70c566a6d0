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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import h5py
import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.figures import gathered
from compiler.graph.adapters.keras_private import layers_within
from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.export import PlainModel, plain_model
from compiler.graph.storage.zip_files import SwellingError, ZipArchive
from dsl.diagnostics import RunError
from dsl.errors import layers as errors
from dsl.files.regular import open_regular
from dsl.source import Span

INSIDE = "model.weights.h5"
LAYERS = "layers"
VARIABLES = "vars"
OPTIMIZER = "optimizer/"
IDF_WEIGHTS = f"{VARIABLES}/idf_weights"
"""What a look-up writes beside weights: how much each word counts, which a spec has as an argument."""


class StrangeFileError(Exception):
    """A file contains something that files of Keras do not contain; the message says what."""


_UNREADABLE = (StrangeFileError, OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)

Keys: TypeAlias = tuple[str, ...]
"""The places of an array in a file of weights, of which a file may have only some."""


def read_weights(
    compiled: CompiledGraph,
    path: Path,
    span: Span | None,
    *,
    base: str,
    elsewhere: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Return the values of the weights in a file, by their names in `CompiledGraph.weights`.

    No number is read before the file is known to have exactly the weights of the model, each with its shape.
    Those that only a loss or a metric depends on are among them, but not those that nothing depends on.

    Raises:
        RunError: The file cannot be read, or has other weights or shapes.
    """
    places = layout_of(compiled, base).keys
    model = compiled.plan.model
    values = model.values_in_use
    used = tuple(
        f"{model.layers[call.layer].path}/" for call in model.calls if not values.isdisjoint(call.values)
    )
    with open_arrays(path, span) as arrays:
        found = arrays.by_key
        wanted = {
            name: keys
            for name, keys in places.items()
            if not found.keys().isdisjoint(keys) or (name.startswith(used) and name not in elsewhere)
        }
        faults = list(faults_of(compiled, wanted, found))
        known = {key for keys in places.values() for key in keys}
        faults += [f"the model has no place for {each}" for each in beyond(found, known)]
        if faults:
            missing = any(found.keys().isdisjoint(keys) for keys in wanted.values())
            raise RunError(
                errors.weights_do_not_fit(span, path=str(path), faults=sorted(faults), missing=missing)
            )
        return values_of(compiled, wanted, found)


def beyond(found: Mapping[str, Stored], known: Collection[str]) -> list[str]:
    """Return the keys, with shapes, that a file has beyond some, other than states of random layers."""
    return [
        f"`{key}`, {list(array.shape)}"
        for key, array in found.items()
        if key not in known and not (array.shape == (2,) and array.kind in "ui")
    ]


def faults_of(
    compiled: CompiledGraph, wanted: Mapping[str, Keys], found: Mapping[str, Stored]
) -> Iterator[str]:
    """Yield what is wrong with the arrays of some weights: they are missing, or have another shape."""
    for name, keys in wanted.items():
        here = compiled.weights[name].shape
        there = {found[key].shape for key in keys if key in found}
        if not there:
            yield f"`{name}` is not in the file"
        for shape in there - {here, (1, *here), (1, prod(here))}:  # free weights are kernels there
            yield f"`{name}` is {list(shape)} there and {list(here)} here"


def values_of(
    compiled: CompiledGraph, wanted: Mapping[str, Keys], found: Mapping[str, Stored]
) -> dict[str, np.ndarray]:
    """Return the values of some weights in a file that has them, each with its shape in the graph."""
    there = {name: next(key for key in keys if key in found) for name, keys in wanted.items()}
    return {name: found[key].read().reshape(compiled.weights[name].shape) for name, key in there.items()}


@frozen
class Arrays:
    """The arrays of an open file of weights, without those of an optimizer and of look-ups."""

    by_key: dict[str, Stored]  # the arrays by the names of their layers, and their numbers in them
    by_path: dict[str, Stored]  # the arrays by their paths in the file


@contextmanager
def open_arrays(path: Path, span: Span | None) -> Iterator[Arrays]:
    """Open a file of weights."""
    with readable(path, span), _opened(path) as file, h5py.File(file, "r") as store:
        yield _arrays(contents(store))


@contextmanager
def readable(path: Path, span: Span | None) -> Iterator[None]:
    """Turn errors of reading a file of weights within into a diagnostic."""
    try:
        yield
    except _UNREADABLE as fault:
        reason = "it is not a Keras archive"
        if isinstance(fault, StrangeFileError | SwellingError):
            reason = str(fault)
        elif isinstance(fault, OSError):
            reason = fault.strerror.lower() if fault.strerror else "it is not an HDF5 file"
        raise RunError(errors.weights_unreadable(span, path=str(path), reason=reason)) from fault


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


def _arrays(there: Contents) -> Arrays:
    by_path = {
        path: each
        for path, each in there.arrays.items()
        if not path.startswith(OPTIMIZER) and not path.endswith(IDF_WEIGHTS)
    }
    layers = {path.removesuffix(f"/{VARIABLES}"): name for path, name in there.names.items()}
    return Arrays({_key(path, layers): array for path, array in by_path.items()}, by_path)


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


@frozen
class Layout:
    """Where a file of this model has its weights. Keras writes some of them twice."""

    keys: dict[str, Keys]
    paths: dict[str, Keys]


def layout_of(compiled: CompiledGraph, base: str) -> Layout:
    """Return where a file of all layers of this model has its weights.

    Keras adds what `lora_rank` has trained to the kernel that it writes, so that it has no place of its own.
    """
    plain = plain_model(compiled, base=base, whole=True)
    names = list(plain.variables)
    digits = [_written(plain, place) for place in range(2)]
    return Layout(*(_by_name(names, *each) for each in zip(*digits, strict=True)))


_BASE = 128
"""Numbers are written in digits to this base, which variables of 8 and of 16 bits hold as well."""


def _written(plain: PlainModel, place: int) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return a digit of the number of each weight, by both names that it has in a file of the model."""
    numbers = {id(variable): number for number, variable in enumerate(plain.variables.values())}
    for variable in plain.model.variables:  # the states of random layers come after all weights
        digit = numbers.get(id(variable), len(numbers)) // _BASE**place % _BASE
        variable.assign(np.full(variable.shape, digit, variable.dtype))
    for layer in layers_within(plain.model):
        for variable in layer.variables if getattr(layer, "lora_enabled", False) else ():
            if variable.name.startswith("lora_"):
                variable.assign(np.zeros(variable.shape, variable.dtype))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / INSIDE
        plain.model.save_weights(path)
        with _opened(path) as file, h5py.File(file, "r") as store:
            found = _arrays(contents(store))
            return _digits(found.by_key), _digits(found.by_path)


def _digits(found: Mapping[str, Stored]) -> Mapping[str, int]:
    return {key: int(array.read().ravel()[0]) for key, array in found.items()}


def _by_name(names: Sequence[str], low: Mapping[str, int], high: Mapping[str, int]) -> dict[str, Keys]:
    """Return where the number of each weight is, of which there are two digits, from the first place on."""
    places = gathered((low[key] + _BASE * high[key], key) for key in low)
    return {names[number]: tuple(keys) for number, keys in places.items() if number < len(names)}


# --- what HDF5 files may contain --------------------------------------------------------------------------
#
# HDF5 can make an array of other files (external storage, virtual datasets, links), of a type without a size,
# and of chunks that unpack to any size. Keras writes none of this. All of it is refused before a byte of an
# array is read.


_BFLOAT16 = np.dtype(tf.bfloat16.as_numpy_dtype)

LARGEST_UNASKED = 1 << 20
"""The bytes that an array may always have, however few of them are in the file."""

MOST_TIMES = 1100
"""The most that a larger array may be, as a multiple of its size in the file: deflate reaches 1,032."""


@frozen
class Stored:
    """An array of an open file that can be read safely. Its shape is known, but it has not been read."""

    shape: tuple[int, ...]
    kind: str  # the kind of NumPy's dtype, such as `f`
    _dataset: Any

    def read(self) -> np.ndarray:
        """Return the numbers; HDF5 has no bfloat16, of which Keras writes the bits."""
        found = np.asarray(self._dataset)
        return found.view(_BFLOAT16) if self.kind == "V" else found


@frozen
class Contents:
    """What an open file contains."""

    arrays: dict[str, Stored]
    names: dict[str, str]  # the attribute `name` of groups called `vars`, by their paths


def contents(store: h5py.File) -> Contents:
    """Return what an open file contains.

    Raises:
        StrangeFileError: The file contains something that files of Keras do not contain.
        OSError: The file is damaged.
    """
    links: list[tuple[str, bool]] = []
    store.visititems_links(lambda path, link: links.append((path, isinstance(link, h5py.HardLink))))
    found = Contents({}, {})
    for path, is_own in links:  # the visitor must not raise, because h5py does not pass exceptions on
        if not is_own:
            raise StrangeFileError(f"`{path}` in it is a link to something else")
        item = store[path]
        if isinstance(item, h5py.Dataset):
            found.arrays[path] = _stored(path, item)
        elif path.endswith("vars") and "name" in item.attrs:
            found.names[path] = str(item.attrs["name"])
    return found


def _stored(path: str, item: h5py.Dataset) -> Stored:
    if item.is_virtual or item.external is not None:
        raise StrangeFileError(f"the numbers of `{path}` are in other files")
    sizes = {_BFLOAT16.itemsize} if item.dtype.kind == "V" else range(np.dtype("c16").itemsize + 1)
    if item.shape is None or item.dtype.kind not in "biufV" or item.dtype.itemsize not in sizes:
        raise StrangeFileError(f"`{path}` holds no numbers")
    there = item.id.get_storage_size()
    if item.nbytes > max(LARGEST_UNASKED, MOST_TIMES * there):
        reason = f"the {there:,} bytes of `{path}` would unpack to {item.nbytes:,}, which is not plausible"
        raise StrangeFileError(reason)
    chunk = prod(map(int, item.chunks or ())) * int(item.dtype.itemsize)
    if chunk > max(LARGEST_UNASKED, item.nbytes):
        raise StrangeFileError(f"`{path}` is packed in chunks that are larger than it is")
    return Stored(tuple(item.shape), item.dtype.kind, item)
