"""What files of examples hold: the tensors in them, with the values seen, and which may be the label."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.errors.layers import data_unlike
from tfdeploy.data.small_graphs import FAILURES, evaluate, reason_of
from tfdeploy.data.sources.base import Context
from tfdeploy.data.sources.files import find_files, find_folder, read_start
from tfdeploy.data.sources.images import READ, Images
from tfdeploy.data.sources.npz import Archive
from tfdeploy.data.sources.pixels import decode_mask
from tfdeploy.data.sources.tfrecord import held_by
from tfdeploy.data.sources.tfrecord_file import RecordFile
from tfdeploy.onramp.found import (
    MOST_CLASSES,
    MOST_FILES,
    MOST_ROWS,
    TAKEN,
    Found,
    Tensor,
    array,
    common_size,
    feature_call,
    of_bytes,
    size_of_image,
)
from tfdeploy.onramp.graph import free_name
from tfdeploy.onramp.tabular import Header, of_arrow, of_csv

LABELS = ("label", "labels", "target", "targets", "class", "y", "outcome", "category", "digit", "species")
"""Names of what others predict, those that say most first."""

ENDINGS = {
    "npz": (".npz",),
    "tfrecord": (".tfrec",),
    "csv": (".csv",),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
"""How the endings of the names of the files of each source begin."""


def look(path: Path, *, header: Header = None, masks: Path | None = None) -> Found:
    """Return what files or a folder of examples hold.

    Args:
        path: A CSV, npz, TFRecord, Parquet or Arrow file, a glob of files of one of these kinds but npz, or a
            folder: of such files, with a folder of images for each class, or with one of images and one of
            masks.
        header: Whether the first row of CSV files names the columns, or their names; None to find out.
        masks: A folder with a mask for each image in the folder `path`.

    Raises:
        RunError: There is nothing, or nothing that can be read.
    """
    if masks is not None:
        return of_images(find_folder(str(path), Path(), None), find_folder(str(masks), Path(), None))
    if path.is_dir():
        inside = _files_in(path)
        if inside is None:
            return of_images(path, None)
        path = inside
    if path.suffix or os.path.lexists(path):
        files = find_files(str(path), Path(), None)
    else:
        find_folder(str(path), Path(), None)
    kind = _kind_of(files[0])
    if kind is None:
        reason = (
            "its name ends neither in `.csv`, `.npz`, `.tfrecord`, `.parquet` or `.arrow`, "
            "nor is it a folder of images"
        )
        raise RunError(data_unlike(path=str(path), reason=reason))
    if header is not None and kind != "csv":
        raise RunError(data_unlike(path=str(path), reason="only CSV files have a header"))
    if kind == "csv":
        found = of_csv(path, files, header)
    elif kind in {"parquet", "arrow"}:
        found = of_arrow(path, files, kind)
    else:
        found = {"npz": _npz, "tfrecord": _tfrecord}[kind](path, files)
    if not found.tensors:
        reason = "; ".join(["it has nothing that a model could read", *found.lost])
        raise RunError(data_unlike(path=str(path), reason=reason))
    found.label, found.why = _label(found)
    return found


def _kind_of(file: Path) -> str | None:
    """Return the source that reads a file, by its name or its first bytes; None for none."""
    suffixes = [each.lower() for each in file.suffixes]
    for kind, endings in ENDINGS.items():
        if any(each.startswith(endings) for each in suffixes):
            return kind
    return {b"PK\x03\x04": "npz", b"PAR1": "parquet", b"ARRO": "arrow"}.get(read_start(file, 4, None))


def _files_in(folder: Path) -> Path | None:
    """Return a glob of the files in a folder that has no folders in it, if they are of one kind."""
    inside = [each for each in folder.iterdir() if not each.name.startswith(".")]
    for kind, endings in ENDINGS.items():
        for ending in endings:
            if kind != "npz" and any(each.suffix.startswith(ending) for each in inside):
                return None if any(each.is_dir() for each in inside) else folder / f"*{ending}*"
    return None


def _label(found: Found) -> tuple[str | None, str]:
    """Return the name of the tensor that is taken for the label, and why it is."""
    if len(found.tensors) == 1:
        return None, ""
    small = [each for each in found.tensors.values() if len(each.shape) <= 1 and each.name]
    for known in LABELS:
        for each in small:
            if known in re.split(r"[^a-z]+", each.name.lower()):
                return each.name, "because of its name"
    if "header" in found.kwargs and small:  # as data sets without names have it: at an end, with few classes
        first, last = small[0], small[-1]
        few = (first.classes or MOST_CLASSES) < (last.classes or MOST_CLASSES)
        return (first if few else last).name, f"because it is the {'first' if few else 'last'} column"
    if found.is_table and small:
        return small[-1].name, "because it is the last column"
    whole = [each for each in small if each.is_whole and each.classes is not None and not each.shape]
    if whole:
        return whole[-1].name, "because it holds a whole number for each example"
    return None, ""


# --- npz ----------------------------------------------------------------------------------------------------

_SPLITS = {
    "train": "train",
    "test": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}


def _npz(path: Path, files: Sequence[Path]) -> Found:
    if len(files) > 1:
        raise RunError(data_unlike(path=str(path), reason="each npz file is a data set of its own"))
    archive, found = Archive(files[0], None), Found(path, "npz")
    if not archive.names:
        raise RunError(errors.empty(Where(str(path)), what="the archive holds no array"))
    arrays = {name: archive.array(name) for name in archive.names}
    splits: dict[str, dict[str, str]] = {}
    for name in arrays:
        parts = [each for each in re.split(r"[_\W]+", name) if each]
        split = next((_SPLITS[each.lower()] for each in parts if each.lower() in _SPLITS), "")
        stem = "_".join(each for each in parts if each.lower() not in _SPLITS)
        splits.setdefault(split, {})[stem or name] = name
    main = splits.pop("train", None) or splits.pop("", None) or splits.pop(next(iter(splits)))
    others = splits.pop("", {})
    lengths = {name: arrays[name].length for name in main.values()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"`{name}` has {length:,}" for name, length in lengths.items())
        raise RunError(
            data_unlike(path=str(path), reason=f"its arrays have other numbers of examples: {said}")
        )
    found.lost += [f"the array `{each}` is left out: it is of no split" for each in others.values()]
    taken = set(TAKEN)
    for stem, name in main.items():
        known, there = free_name(stem, taken), arrays[name]
        found.count = there.length
        rows = max(1, min(MOST_ROWS, there.length, (1 << 28) // max(there.record_bytes, 1)))
        values = next(archive.pieces(there, rows), None)
        if values is None or not values.size:
            raise RunError(errors.empty(Where(str(path), f"array `{name}`"), what="it holds no example"))
        found.tensors[known] = array(known, values, name, there.dtype)
        for split, named in splits.items():
            if stem in named:
                found.splits.setdefault(split, {})[known] = named[stem]
    return found


# --- TFRecord -----------------------------------------------------------------------------------------------

_COMPRESSIONS = (("none", b""), ("gzip", b"\x1f\x8b"), ("zlib", b"\x78"))


def _tfrecord(path: Path, files: Sequence[Path]) -> Found:
    start = read_start(files[0], 2, None)
    compression = next((name for name, sign in _COMPRESSIONS[1:] if start.startswith(sign)), "none")
    more: dict[str, ir.Value] = {} if compression == "none" else {"compression": compression}
    found, held, looked = Found(path, "tfrecord", kwargs=more), dict[str, list[Any]](), 0
    for each in files:
        file = RecordFile(each, None, compression)
        file.check_start()
        found.count += file.count
        here = min(file.count, MOST_FILES - looked)
        looked += here
        for number in range(here):
            features = held_by(file, number)
            if isinstance(features, Diagnostic):
                raise RunError(features)
            for name, feature in features.items():
                held.setdefault(name, []).append(feature)
    for name in sorted(held):
        found.add("feature", name, name, _feature(name, held[name], looked))
    return found


def _feature(name: str, held: Sequence[Any], records: int) -> Tensor | str:
    """Return a feature as a tensor, or why it is left out."""
    kinds = {each.WhichOneof("kind") for each in held}
    if len(held) < records:
        return f"{records - len(held):,} of {records:,} records lack it"
    if len(kinds) > 1 or None in kinds:
        return "it is of another kind in other records"
    kind = str(kinds.pop())
    lists = [getattr(each, kind).value for each in held]
    sizes = {len(each) for each in lists}
    if len(sizes) > 1:
        return f"it has {min(sizes)} to {max(sizes)} values, for which `pad` is needed"
    size = sizes.pop()
    shape = () if size == 1 else (size,)
    if kind == "bytes_list":
        return of_bytes(name, [value for each in lists for value in each], shape)
    dtype = "float32" if kind == "float_list" else "int64"
    values = np.array([list(each) for each in lists], dtype).reshape(len(lists), *shape)
    return array(name, values, feature_call(dtype, shape), dtype)


# --- folders of images ------------------------------------------------------------------------------------

VOID = 255
"""What a mask has where a pixel belongs to no class, as those of PASCAL VOC have."""

_MASKS = re.compile(r"mask|label|annot|segm|target|trimap", re.IGNORECASE)


def of_images(path: Path, masks: Path | None) -> Found:
    """Return what a folder of images holds.

    Args:
        path: A folder with a folder of images for each class, one with a folder of images and one of their
            masks, or, with `masks`, a folder of images.
        masks: The folder of their masks; None to find out whether there is one.
    """
    if masks is None:
        path, masks = _pair_in(path) or (path, None)
    kwargs: dict[str, ir.Value] = {} if masks is None else {"masks": str(masks.absolute())}
    source = Images(ir.Call("images", (str(path.absolute()), (1, 1)), kwargs), Context(Path("/")))
    files = source.files
    numbers = range(0, len(files), max(1, len(files) // MOST_FILES))
    sizes, seen = [], np.zeros(VOID + 1, bool)
    for number in numbers:
        try:
            data = files[number][0].read_bytes()
            size = size_of_image(data)
            if masks is not None:
                seen[_mask_of(files[number][1].read_bytes(), data, size)] = True
        except (*FAILURES, OSError) as fault:
            reason = reason_of(fault) if isinstance(fault, FAILURES) else str(fault)
            raise RunError(source.fault(number, reason)) from fault
        sizes.append(size)
    *wanted, channels = common_size(sizes)
    channels = channels if channels in (1, 3) else 3
    found = Found(path, "images", (tuple(wanted),), {} if channels == 3 else {"channels": channels})  # noqa: PLR2004 colours
    found.count = len(files)
    found.tensors["image"] = Tensor("image", "uint8", (*wanted, channels), None, 0.0, 255.0)
    if masks is None:
        found.tensors["label"] = Tensor("label", "int32", (), None, 0.0, float(len(source.classes) - 1))
        names = ", ".join(source.classes[:10])
        found.label, found.why = "label", f"because it is the number of the folder: {names}"
    else:
        found.masks = masks
        found.tensors["mask"] = _mask((*wanted, 1), seen, found.lost)
        found.label, found.why = "mask", f"because `{masks.name}` has a mask for each image"
    found.lost += _resized(sizes)
    return found


def _pair_in(folder: Path) -> tuple[Path, Path] | None:
    """Return the folder of images and that of their masks, if a folder has these two and no more."""
    folders = [each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")]
    masks = [each for each in folders if _MASKS.search(each.name)]
    if len(folders) != 2 or len(masks) != 1:  # noqa: PLR2004 images and masks
        return None
    (images,) = (each for each in folders if each not in masks)
    return (images, masks[0]) if _stems(images) & _stems(masks[0]) else None


def _stems(folder: Path) -> set[Path]:
    files = (each for each in folder.rglob("*") if each.suffix.lower() in READ)
    return {each.relative_to(folder).with_suffix("") for each in files}


def _mask_of(data: bytes, image: bytes, size: tuple[int, int, int]) -> Any:
    return evaluate(lambda: decode_mask(data, image, *size[:2])).ravel()


def _mask(shape: tuple[int, ...], seen: Any, told: list[str]) -> Tensor:
    """Return a mask of which some numbers were seen: 0 and 255 for two classes, or the numbers of classes."""
    numbers = np.flatnonzero(seen).tolist()
    if numbers == [0, VOID]:
        told.append("the masks hold 0 and 255, and are scaled to 0 and 1")
        return Tensor("mask", "uint8", shape, None, 0.0, 1.0, factor=1 / VOID)
    void = VOID if numbers[-1] == VOID and len(numbers) > 1 else None
    if void is not None:
        told.append("255 in a mask marks a pixel without a class, so that a loss needs `ignore_class = 255`")
    return Tensor("mask", "uint8", shape, None, 0.0, float(numbers[-2 if void else -1]), void=void)


def _resized(sizes: Sequence[tuple[int, int, int]]) -> list[str]:
    if len(set(sizes)) == 1:
        return []
    heights, widths = ([each[axis] for each in sizes] for axis in (0, 1))
    sides = f"{min(heights)} to {max(heights)} high and {min(widths)} to {max(widths)} wide"
    return [f"the images are {sides}, and all are brought to the same size"]
