"""Arrays of HDF5 files from strangers: only those whose bytes are in the file itself.

HDF5 can make an array of other files (external storage, virtual datasets, links), of a type without a size,
and of chunks that unpack to any size. None of this is what Keras writes; all of it is refused before a byte
of an array is read.
"""

from __future__ import annotations

from math import prod
from typing import Any, BinaryIO

import h5py
import numpy as np
from attrs import frozen

LARGEST_UNASKED = 1 << 20
"""Bytes that an array may always have, however little of it the file holds."""

MOST_TIMES = 1100
"""How many times its size in the file a larger array may have: deflate reaches 1,032."""


class StrangeFileError(Exception):
    """A file has in it what the files of Keras do not have; the message says what."""


@frozen
class Stored:
    """An array of an open file that can be read safely: its shape is known, its numbers are not read yet."""

    shape: tuple[int, ...]
    kind: str
    _dataset: Any

    def read(self) -> np.ndarray:
        """Return the numbers."""
        return np.asarray(self._dataset)


@frozen
class Contents:
    """The arrays of a file by their paths in it, and the attribute `name` of groups called `vars`."""

    arrays: dict[str, Stored]
    names: dict[str, str]


def contents(store: h5py.File) -> Contents:
    """Return what is in an open file. Raises StrangeFileError, and OSError for damage."""
    links: list[tuple[str, bool]] = []
    store.visititems_links(lambda path, link: links.append((path, isinstance(link, h5py.HardLink))))
    found = Contents({}, {})
    for path, is_own in links:  # what the visit itself calls must not raise: h5py does not pass that on
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
    if item.shape is None or item.dtype.kind not in "biufV" or item.dtype.itemsize > np.dtype("c16").itemsize:
        raise StrangeFileError(f"`{path}` holds no numbers")
    there = item.id.get_storage_size()
    if item.nbytes > max(LARGEST_UNASKED, MOST_TIMES * there):
        reason = f"the {there:,} bytes of `{path}` would unpack to {item.nbytes:,}, out of all proportion"
        raise StrangeFileError(reason)
    if item.chunks is not None and _chunk_bytes(item) > max(LARGEST_UNASKED, item.nbytes):
        raise StrangeFileError(f"`{path}` is packed in chunks that are larger than it is")
    return Stored(tuple(item.shape), item.dtype.kind, item)


def _chunk_bytes(item: h5py.Dataset) -> int:
    return prod(map(int, item.chunks)) * int(item.dtype.itemsize)


def open_store(file: BinaryIO) -> h5py.File:
    """Open the HDF5 file that `file` holds for reading. Raises OSError where it is none."""
    return h5py.File(file, "r")
