"""What folders of images hold: an image and its class, or an image and its mask."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dsl import ir
from dsl.diagnostics import RunError
from tfdeploy.data.small_graphs import FAILURES, evaluate, reason_of
from tfdeploy.data.sources.base import Context
from tfdeploy.data.sources.images import READ, Images
from tfdeploy.data.sources.pixels import decode_mask
from tfdeploy.onramp.found import MOST_FILES, Found, Tensor, common_size, size_of_image

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
