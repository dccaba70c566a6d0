"""Read arrays from untrusted HDF5 files: only those whose bytes are in the file itself.

HDF5 can make an array of other files (external storage, virtual datasets, links), of a type without a size,
and of chunks that unpack to any size. Keras writes none of this. All of it is refused before a byte of an
array is read.
"""

from __future__ import annotations

from math import prod
from typing import Any

import h5py
import numpy as np
from attrs import frozen

LARGEST_UNASKED = 1 << 20
"""The bytes that an array may always have, however few of them are in the file."""

MOST_TIMES = 1100
"""The most that a larger array may be, as a multiple of its size in the file: deflate reaches 1,032."""


class StrangeFileError(Exception):
    """A file contains something that files of Keras do not contain; the message says what."""


@frozen
class Stored:
    """An array of an open file that can be read safely. Its shape is known, but it has not been read.

    Attributes:
        shape: The shape.
        kind: The kind of NumPy's dtype, such as `f`.
    """

    shape: tuple[int, ...]
    kind: str
    _dataset: Any

    def read(self) -> np.ndarray:
        """Return the numbers."""
        return np.asarray(self._dataset)


@frozen
class Contents:
    """What an open file contains.

    Attributes:
        arrays: The arrays by their paths.
        names: The attribute `name` of groups called `vars`, by their paths.
    """

    arrays: dict[str, Stored]
    names: dict[str, str]


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
    if item.shape is None or item.dtype.kind not in "biufV" or item.dtype.itemsize > np.dtype("c16").itemsize:
        raise StrangeFileError(f"`{path}` holds no numbers")
    there = item.id.get_storage_size()
    if item.nbytes > max(LARGEST_UNASKED, MOST_TIMES * there):
        reason = f"the {there:,} bytes of `{path}` would unpack to {item.nbytes:,}, which is not plausible"
        raise StrangeFileError(reason)
    chunk = prod(map(int, item.chunks or ())) * int(item.dtype.itemsize)
    if chunk > max(LARGEST_UNASKED, item.nbytes):
        raise StrangeFileError(f"`{path}` is packed in chunks that are larger than it is")
    return Stored(tuple(item.shape), item.dtype.kind, item)
