"""`images("flowers", size = [64, 64])`: a folder with a folder of JPEG and PNG files for each class."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import tensorflow as tf

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.files.regular import strange_kind
from tfdeploy.data import small_graphs
from tfdeploy.data.arguments import Field, Tensors
from tfdeploy.data.sources.base import Context, Source
from tfdeploy.data.sources.files import (
    find_folder,
    name_of,
    natural_key,
    read_start,
    reading,
    size_of,
)
from tfdeploy.data.sources.pixels import GREY, PALETTE, decode_image, decode_mask

READ = {".jpg", ".jpeg", ".jpe", ".jfif", ".png"}
NOT_READ = {".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif", ".heic", ".jxl", ".svg"}
STARTS = {b"\xff\xd8\xff": "JPEG", b"\x89PNG": "PNG"}
CHANNELS = (1, 3, 4)


class Images(Source):
    """Images brought to one size: `image`, uint8, and `label`, int32, the number of the class."""

    per_record = True

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.folder = find_folder(self.given["path"], context.base, self.given.span("path"))
        self.size: tuple[int, int] = self.given["size"]
        if len(self.size) != 2:  # noqa: PLR2004 height and width
            self.given.refuse("takes height and width as `size`", "size")
        self.channels: int = self.given["channels"]
        if self.channels not in CHANNELS:
            self.given.refuse("takes 1 channel for grey, 3 for colour, 4 with transparency", "channels")
        self.resize: str = self.given["resize"]
        image = Field("image", "uint8", (*self.size, self.channels))
        named = self.given.texts("classes") if self.given["classes"] is not None else None
        self.masks: Path | None = None
        if self.given["masks"] is None:
            self.classes = self._classes(named)
            self.fields = (image, Field("label", "int32", ()))
            return
        if named is not None:
            self.given.refuse("has no classes of images if it has `masks`", "classes")
        self.masks = find_folder(self.given["masks"], context.base, self.given.span("masks"))
        self.fields = (image, Field("mask", "uint8", (*self.size, 1)))

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """Return what is in a folder and not hidden, in the order of names; raises RunError."""
        with reading(folder, self.span), os.scandir(folder) as entries:
            found = [each for each in entries if not each.name.startswith(".")]
        return sorted(found, key=lambda each: natural_key(each.name))

    def _classes(self, wanted: tuple[str, ...] | None) -> tuple[str, ...]:
        entries = self._entries(self.folder)
        found = tuple(each.name for each in entries if _holds(each))
        if not found:
            reason = "the folder holds no folder, of which each class needs one"
            raise RunError(errors.empty(self.at(self.folder), what=reason))
        for each in entries:
            if not _holds(each) and Path(each.name).suffix.lower() in READ | NOT_READ:
                reason = "this image is in no folder, and so has no class"
                advice = "move it into the folder of its class"
                raise RunError(
                    errors.unreadable(self.at(self.folder / each.name), reason=reason, advice=advice)
                )
        if wanted is None:
            return found
        for at, name in enumerate(wanted):
            if name in wanted[:at]:
                self.given.refuse(f"has two labels for the folder `{name}`", "classes")
            if name not in found:
                raise RunError(errors.missing(self.at(self.folder / name), folder=True))
        unnamed = sorted(set(found) - set(wanted))
        if unnamed:
            reason = f"`classes` leaves out the folder `{unnamed[0]}`"
            raise RunError(
                errors.wrong_shape(self.at(self.folder), found=reason, wanted="every folder to be named")
            )
        return wanted

    @cached_property
    def files(self) -> tuple[tuple[Path, Any], ...]:
        """Every image with the number of its class, or its mask, in the order of names; raises RunError."""
        if self.masks is not None:
            return self._pairs(self.masks)
        found = []
        for label, name in enumerate(self.classes):
            images = list(self._images_in(self.folder / name))
            if not images:
                where = self.at(self.folder / name)
                raise RunError(errors.empty(where, what="the folder of this class holds no JPEG or PNG file"))
            found += [(each, label) for each in images]
        return tuple(found)

    def _pairs(self, masks: Path) -> tuple[tuple[Path, Path], ...]:
        """Return the images with their masks, which have the same names but for the endings."""
        images, others = self._by_name(self.folder), self._by_name(masks)
        if not images:
            raise RunError(errors.empty(self.at(self.folder), what="the folder holds no JPEG or PNG file"))
        for names, besides, folder, other in (
            (images, others, masks, "mask"),
            (others, images, self.folder, "image"),
        ):
            alone = next((path for name, path in names.items() if name not in besides), None)
            if alone is not None:
                raise RunError(errors.unpaired(self.at(alone), other=other, folder=str(folder)))
        return tuple((path, others[name]) for name, path in images.items())

    def _by_name(self, folder: Path) -> dict[str, Path]:
        """Return the images in a folder by their names without endings; raises RunError if two are alike."""
        found: dict[str, Path] = {}
        for path in self._images_in(folder):
            name = str(path.relative_to(folder).with_suffix(""))
            if name in found:
                reason = f"`{found[name].name}` has the same name but for the ending"
                raise RunError(errors.unreadable(self.at(path), reason=reason))
            found[name] = path
        return found

    def _images_in(self, folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
        """Yield the images in a folder and in the folders in it, in the order of names; raises RunError."""
        entries, itself = self._entries(folder), folder.stat()
        number = (itself.st_dev, itself.st_ino)
        if number in above:
            reason = "this link leads back to a folder that it is in"
            raise RunError(errors.unreadable(self.at(folder), reason=reason))
        for each in entries:
            path = folder / each.name
            if _holds(each):
                yield from self._images_in(path, above | {number})
            elif self._is_image(path):
                yield path

    def _is_image(self, path: Path) -> bool:
        """Whether the name of a file is that of an image; raises RunError for images that are not read."""
        suffix = path.suffix.lower()
        if suffix in NOT_READ:
            reason = f"{suffix} images are not read"
            raise RunError(errors.image(self.at(path), reason=reason, advice="convert it to PNG or JPEG"))
        if suffix in READ and not path.is_file():
            kind = strange_kind(path.stat().st_mode) if path.exists() else "a link to nothing"
            raise RunError(errors.image(self.at(path), reason=f"this is {kind}, not a file"))
        if not suffix and path.is_file() and self._kind(path) is not None:
            reason = f"this is a {self._kind(path)} file without an ending, by which images are known"
            raise RunError(
                errors.image(self.at(path), reason=reason, advice="add `.jpg` or `.png` to its name")
            )
        return suffix in READ

    def _kind(self, path: Path) -> str | None:
        """Return what a file is by its first bytes: JPEG, PNG or something else."""
        start = read_start(path, 4, self.span)
        return next((name for sign, name in STARTS.items() if start.startswith(sign)), None)

    def count(self) -> int:
        """Return how many images there are."""
        return len(self.files)

    def records(self) -> Any:
        """Return the names of the files with their labels, or with the names of their masks."""
        paths = tf.data.Dataset.from_tensor_slices([name_of(path) for path, _ in self.files])
        if self.masks is not None:
            masks = tf.data.Dataset.from_tensor_slices([name_of(mask) for _, mask in self.files])
            return tf.data.Dataset.zip({"path": paths, "mask": masks})
        labels = tf.data.Dataset.from_tensor_slices(tf.constant([label for _, label in self.files], tf.int32))
        return tf.data.Dataset.zip({"path": paths, "label": labels})

    def decode(self, record: Any) -> Tensors:
        """Read and decode one image, and its mask if it has one."""
        return self.decode_as(record, frozenset())

    def decode_as(self, record: Any, floats: frozenset[str]) -> Tensors:
        """Read and decode one image, as floats if it is one of them, and its mask if it has one."""
        dtype = tf.float32 if "image" in floats else tf.uint8
        data = tf.io.read_file(record["path"])
        image = decode_image(data, *self.size, self.channels, resize=self.resize, dtype=dtype)
        if self.masks is None:
            return {"image": image, "label": record["label"]}
        mask = decode_mask(tf.io.read_file(record["mask"]), data, *self.size, resize=self.resize)
        return {"image": image, "mask": mask}

    def where(self, index: int) -> Where:
        """Return the file of example `index`."""
        return self.at(self.files[index][0])

    def where_in(self, index: int, name: str) -> Where:
        """Return the file of a tensor of example `index`: that of its mask, or of the image."""
        if self.masks is not None and name == "mask":
            return self.at(self.files[index][1])
        return super().where_in(index, name)

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Return the diagnostic about the file of example `index`, which is no image, or about its mask."""
        path, mask = self.files[index]
        if self.masks is None:
            return self._unreadable(path, reason)
        try:
            size = small_graphs.evaluate(
                lambda: tf.shape(tf.io.decode_image(tf.io.read_file(name_of(path)), expand_animations=False))
            )
        except small_graphs.FAILURES as error:
            return self._unreadable(path, small_graphs.reason_of(error))
        return self._mask_fault(mask, tuple(size[:2].tolist()), path) or self._unreadable(mask, reason)

    def _mask_fault(self, mask: Path, size: tuple[int, int], image: Path) -> Diagnostic | None:
        """Return the diagnostic about a mask that has no number for each pixel of an image, by its header."""
        start, where = read_start(mask, 26, self.span), self.at(mask)
        if self._kind(mask) == "JPEG":
            reason = "a JPEG file alters the numbers of a mask"
            return errors.image(where, reason=reason, advice="write masks as PNG files")
        if self._kind(mask) is None or len(start) < 26:  # noqa: PLR2004 where the header has told all
            return None
        width, height, bits, kind = struct.unpack(">IIBB", start[16:])
        if kind not in {PALETTE, GREY} or bits > 8:  # noqa: PLR2004 a byte
            found = f"numbers of {bits} bits" if kind in {PALETTE, GREY} else "colours"
            reason = f"its pixels are {found}, not numbers from 0 to 255"
            return errors.image(
                where, reason=reason, advice="write a grey PNG file, or one with a palette, of 8 bits"
            )
        if (height, width) != size:
            wanted = f"{size[0]} x {size[1]}, as in `{image}`"
            return errors.wrong_shape(where, found=f"{height} x {width} pixels", wanted=wanted)
        return None

    def _unreadable(self, path: Path, reason: str) -> Diagnostic:
        """Return the diagnostic about a file that TensorFlow has refused for a reason."""
        if size_of(path, self.span) == 0:
            return errors.image(self.at(path), reason="the file is empty")
        kind = self._kind(path)
        if kind is None:
            return errors.image(
                self.at(path), reason="this is neither a JPEG nor a PNG file, whatever its name"
            )
        if "too large" in reason:
            return errors.image(self.at(path), reason=f"the {kind} file is too large: {reason}")
        if "support 4 channels" in reason:
            return errors.image(
                self.at(path), reason="a JPEG file has no transparency, as `channels = 4` wants"
            )
        return errors.image(self.at(path), reason=f"the {kind} file is damaged or was cut off: {reason}")


def _holds(entry: os.DirEntry[str]) -> bool:
    """Whether a name in a folder is that of a folder, or of a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
